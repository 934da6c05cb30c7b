package kernel

import "slices"

// TopK writes the k largest elements of each of rows rows of width elements to values and their places in the row to
// indices, both [rows, k], in descending order (Fluid's top_k). Of equal elements the one with the lower index comes
// first; NaN counts as less than every number. k is between 0 and width.
func TopK[T Number](values []T, indices []int64, x []T, rows, width, k int) {
	for r := range rows {
		topKRow(values[r*k:][:k], indices[r*k:][:k], x[r*width:][:width])
	}
}

// topKRow keeps the best seen so far sorted and inserts each element that beats the last of them.
func topKRow[T Number](values []T, indices []int64, x []T) {
	k, filled := len(values), 0
	for i, v := range x {
		if filled == k && (k == 0 || !beats(v, values[k-1])) {
			continue
		}
		place := filled
		if filled == k {
			place--
		} else {
			filled++
		}
		for place > 0 && beats(v, values[place-1]) {
			values[place], indices[place] = values[place-1], indices[place-1]
			place--
		}
		values[place], indices[place] = v, int64(i)
	}
}

// beats orders x strictly before y: greater, or a number against NaN.
func beats[T Number](x, y T) bool { return x > y || y != y && x == x }

// AccuracyCount returns how many of the rows have their label among the k indices that TopK gave for them; labels holds
// one label a row (Fluid's accuracy).
func AccuracyCount(indices, labels []int64, k int) int {
	correct := 0
	for r, label := range labels {
		if slices.Contains(indices[r*k:][:k], label) {
			correct++
		}
	}
	return correct
}
