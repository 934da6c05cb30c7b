package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// FirstBadLabel returns the index of the first label that is neither in [0, classes) nor ignored, or -1. The functions
// with hard labels require that it returned -1.
func FirstBadLabel(labels []int64, classes, ignored int64) int {
	for i, l := range labels {
		if (l < 0 || l >= classes) && l != ignored {
			return i
		}
	}
	return -1
}

// lossLimit stands for the loss of a probability of zero, as in Fluid, which keeps infinities out of its losses.
const lossLimit = 1e20

func negativeLog[T tensor.Float](p T) float64 { return min(-math.Log(float64(p)), lossLimit) }

// CrossEntropy computes out[r] = -log(x[r, labels[r]]) for rows of probabilities of width classes, 0 for a row whose
// label is ignored. A probability of 0 costs 1e20. out and labels hold rows elements.
func CrossEntropy[T tensor.Float](out, x []T, labels []int64, rows, classes int, ignored int64) {
	for r := range rows {
		out[r] = 0
		if l := labels[r]; l != ignored {
			out[r] = T(negativeLog(x[r*classes+int(l)]))
		}
	}
}

// CrossEntropyGrad computes dx[r, labels[r]] = -dout[r]/x[r, labels[r]] and 0 elsewhere.
func CrossEntropyGrad[T tensor.Float](dx, x []T, labels []int64, dout []T, rows, classes int, ignored int64) {
	clear(dx[:rows*classes])
	for r := range rows {
		if l := labels[r]; l != ignored {
			at := r*classes + int(l)
			dx[at] = -dout[r] / x[at]
		}
	}
}

// CrossEntropySoft computes out[r] = -sum over c of labels[r,c]*log(x[r,c]), where labels are a distribution over the
// classes. A class of label 0 adds nothing whatever its probability.
func CrossEntropySoft[T tensor.Float](out, x, labels []T, rows, classes int) {
	for r := range rows {
		total := 0.0
		p, w := x[r*classes:][:classes], labels[r*classes:][:classes]
		for c := range p {
			if w[c] != 0 {
				total += float64(w[c]) * negativeLog(p[c])
			}
		}
		out[r] = T(total)
	}
}

// CrossEntropySoftGrad computes dx[r,c] = -dout[r]*labels[r,c]/x[r,c].
func CrossEntropySoftGrad[T tensor.Float](dx, x, labels, dout []T, rows, classes int) {
	for r := range rows {
		p, w := x[r*classes:][:classes], labels[r*classes:][:classes]
		to := dx[r*classes:][:classes]
		for c := range to {
			if to[c] = 0; w[c] != 0 {
				to[c] = -dout[r] * w[c] / p[c]
			}
		}
	}
}
