package kernel

import "github.com/edl-go/edl/tensor"

// FirstNoProbability returns the index of the first of p that is not in [0, 1], -1 if there is none.
func FirstNoProbability[T tensor.Float](p []T) int {
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return i
		}
	}
	return -1
}

// CountScores adds each row to one of len(positive) bins of equal width over its score in [0, 1]: to positive if its label is 1, else to negative.
// The score of a row is the last of its width columns in scores. labels holds one label for each row.
func CountScores[T tensor.Float](positive, negative []int64, scores []T, labels []int64, width int) {
	last := T(len(positive) - 1)
	for r, label := range labels {
		bin := int(scores[r*width+width-1] * last)
		if label == 1 {
			positive[bin]++
		} else {
			negative[bin]++
		}
	}
}

// AUC returns the area under the receiver operating characteristic of counted scores: how probable it is that a positive has a larger score than a
// negative, where two in the same bin count one half. It is 0 if there are no positives or no negatives, as in Fluid.
func AUC(positive, negative []int64) float64 {
	positives, negatives, area := 0.0, 0.0, 0.0 // area counts pairs
	for bin := len(positive) - 1; bin >= 0; bin-- {
		area += float64(negative[bin]) * (positives + float64(positive[bin])/2)
		positives += float64(positive[bin])
		negatives += float64(negative[bin])
	}
	if positives == 0 || negatives == 0 {
		return 0
	}
	return area / positives / negatives
}
