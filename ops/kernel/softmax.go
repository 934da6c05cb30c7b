package kernel

import (
	"math"
	"slices"

	"github.com/edl-go/edl/tensor"
)

// Softmax turns each of rows rows of width classes of x into probabilities: exp(x - max) over its sum. out may be x.
// A row that holds NaN or +Inf, or nothing but -Inf, becomes NaN. No probability is less than exp(-64) times the largest (Fluid's softmax on CPUs): were that of
// a label rounded to 0, the gradient of its logarithm would be infinite, and that of x NaN.
func Softmax[T tensor.Float](out, x []T, rows, classes int) {
	for r := range rows {
		softmaxOf(out[r*classes:][:classes], x[r*classes:][:classes])
	}
}

func softmaxOf[T tensor.Float](out, x []T) {
	_, total := softmaxRow(out, x)
	maxScalar(out, out, T(leastProbability/total))
}

// leastProbability is exp(-64).
const leastProbability = 1.603810890548638e-28

// softmaxRow writes the softmax of one row and returns its largest element and the sum of exp(x - max).
func softmaxRow[T tensor.Float](out, x []T) (top, total float64) {
	if len(x) == 0 {
		return math.Inf(-1), 1
	}
	out = out[:len(x)]
	top = float64(maxOf(x))
	if v := vectorsOf[T](); v != nil {
		v.Exp(singles(out), singles(x), float32(top))
		total = sum(out)
	} else {
		for i, v := range x {
			e := math.Exp(float64(v) - top)
			total += e
			out[i] = T(e)
		}
	}
	mulScalar(out, out, T(1/total))
	return top, total
}

// logSumExp returns the logarithm of the sum of exp(x), given what softmaxRow returns.
func logSumExp(top, total float64) float64 { return top + math.Log(total) }

// maxOf returns the largest of at least one number, NaN when there is one.
func maxOf[T Number](x []T) T {
	if v := vectorsFor[T](len(x)); v != nil {
		whole := len(x) &^ 7
		top := T(v.Largest(singles(x[:whole])))
		for _, v := range x[whole:] {
			top = max(top, v)
		}
		return top
	}
	top := x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	return top
}

// SoftmaxGrad computes dx = out*(dout - sum(dout*out)) for each row; out is what Softmax gave. dx may be dout.
func SoftmaxGrad[T tensor.Float](dx, out, dout []T, rows, classes int) {
	for r := range rows {
		y, g := out[r*classes:][:classes], dout[r*classes:][:classes]
		to := dx[r*classes:][:classes]
		dot := T(sumProduct(g, y))
		if v := vectorsFor[T](classes); v != nil {
			v.SoftmaxGrad(singles(to), singles(y), singles(g), float32(dot))
			continue
		}
		for i := range to {
			to[i] = y[i] * (g[i] - dot)
		}
	}
}

// TopK writes the k largest elements of each of rows rows of width elements to values and their places in the row to
// indices, both [rows, k], in descending order (Fluid's top_k). Of equal elements the one with the lower index comes
// first; NaN counts as less than every number. k is between 0 and width.
func TopK[T Number](values []T, indices []int64, x []T, rows, width, k int) {
	for r := range rows {
		topKRow(values[r*k:][:k], indices[r*k:][:k], x[r*width:][:width])
	}
}

// topKRow keeps the best elements so far sorted, and inserts each element that beats the last of them.
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

// OneHot writes rows of width classes: row i is 1 at ids[i] and 0 elsewhere (Fluid's one_hot). It returns the first i whose number is not below classes, -1
// if there is none. The row of such a number is 0.
func OneHot[T Number, I Index](out []T, ids []I, classes int) (bad int) {
	clear(out)
	bad = -1
	for i, id := range ids {
		switch {
		case id >= 0 && int64(id) < int64(classes):
			out[i*classes+int(id)] = 1
		case bad < 0:
			bad = i
		}
	}
	return bad
}

// SoftmaxStrided is Softmax along an axis that is not the last: x has rows parts of classes runs of inner elements, and classes lie inner elements
// apart. Every element has the bits that Softmax would give a class of its own row.
func SoftmaxStrided[T tensor.Float](out, x []T, rows, classes, inner int, row []T) {
	eachColumn(rows, classes, inner, func(at int) {
		gatherColumn(row[:classes], x[at:], inner)
		softmaxOf(row[:classes], row[:classes])
		scatterColumn(out[at:], row[:classes], inner)
	})
}

// SoftmaxStridedGrad is SoftmaxGrad along an axis that is not the last. y and g are memory for classes elements each.
func SoftmaxStridedGrad[T tensor.Float](dx, out, dout []T, rows, classes, inner int, y, g []T) {
	eachColumn(rows, classes, inner, func(at int) {
		gatherColumn(y[:classes], out[at:], inner)
		gatherColumn(g[:classes], dout[at:], inner)
		SoftmaxGrad(g, y, g, 1, classes)
		scatterColumn(dx[at:], g[:classes], inner)
	})
}

// LogSoftmax computes the logarithms of the probabilities that Softmax computes, without rounding them first: x - log(sum(exp(x))). out may not be x.
func LogSoftmax[T tensor.Float](out, x []T, rows, classes int) {
	for r := range rows {
		to, from := out[r*classes:][:classes], x[r*classes:][:classes]
		shift := logSumExp(softmaxRow(to, from))
		for i, v := range from {
			to[i] = T(float64(v) - shift)
		}
	}
}

// LogSoftmaxGrad computes dx = dout - exp(out)*sum(dout) for each row; out is what LogSoftmax gave. dx may not be out or dout.
func LogSoftmaxGrad[T tensor.Float](dx, out, dout []T, rows, classes int) {
	for r := range rows {
		to, y, g := dx[r*classes:][:classes], out[r*classes:][:classes], dout[r*classes:][:classes]
		Exp(to, y)
		total := T(sum(g))
		for i := range to {
			to[i] = g[i] - T(to[i]*total)
		}
	}
}

// LogSoftmaxStrided is LogSoftmax along an axis that is not the last, as SoftmaxStrided. a and b are memory for classes elements each.
func LogSoftmaxStrided[T tensor.Float](out, x []T, rows, classes, inner int, a, b []T) {
	eachColumn(rows, classes, inner, func(at int) {
		gatherColumn(a[:classes], x[at:], inner)
		LogSoftmax(b, a, 1, classes)
		scatterColumn(out[at:], b[:classes], inner)
	})
}

// LogSoftmaxStridedGrad is LogSoftmaxGrad along an axis that is not the last. a, b and c are memory for classes elements each.
func LogSoftmaxStridedGrad[T tensor.Float](dx, out, dout []T, rows, classes, inner int, a, b, c []T) {
	eachColumn(rows, classes, inner, func(at int) {
		gatherColumn(a[:classes], out[at:], inner)
		gatherColumn(b[:classes], dout[at:], inner)
		LogSoftmaxGrad(c, a, b, 1, classes)
		scatterColumn(dx[at:], c[:classes], inner)
	})
}

// eachColumn calls do with the index of the first element of each column: classes elements, inner apart.
func eachColumn(rows, classes, inner int, do func(at int)) {
	for r := range rows {
		for i := range inner {
			do(r*classes*inner + i)
		}
	}
}

func gatherColumn[T tensor.Float](column, x []T, inner int) {
	for i := range column {
		column[i] = x[i*inner]
	}
}

func scatterColumn[T tensor.Float](x, column []T, inner int) {
	for i, v := range column {
		x[i*inner] = v
	}
}

// OneAtLargest sets the largest number of each column to 1 and the others to 0. x has rows of classes of inner numbers, and a column has a number of each class. Of equal
// numbers the first counts.
func OneAtLargest[T tensor.Float](x []T, rows, classes, inner int) {
	if classes == 0 {
		return
	}
	for row := range rows {
		for column := range inner {
			values, best := x[row*classes*inner+column:], 0
			for c := 1; c < classes; c++ {
				if values[c*inner] > values[best*inner] {
					best = c
				}
			}
			for c := range classes {
				values[c*inner] = 0
			}
			values[best*inner] = 1
		}
	}
}
