package kernel

import "github.com/edl-go/edl/tensor"

// SoftmaxCrossEntropy computes the softmax of each row of logits and, from the logarithm of the sum of exponentials
// rather than from the rounded probabilities, loss[r] = -log(softmax[r, labels[r]]). A row whose label is ignored costs
// 0. loss and labels hold rows elements. softmax and logits do not overlap: the loss reads the logits after the softmax is
// written.
func SoftmaxCrossEntropy[T tensor.Float](softmax, loss, logits []T, labels []int64, rows, classes int, ignored int64) {
	for r := range rows {
		x := logits[r*classes:][:classes]
		logSumExp := softmaxRow(softmax[r*classes:][:classes], x)
		loss[r] = 0
		if l := labels[r]; l != ignored {
			loss[r] = T(logSumExp - float64(x[l]))
		}
	}
}

// SoftmaxCrossEntropyGrad computes dlogits[r,c] = dloss[r]*(softmax[r,c] - 1 where c is the label), 0 for an ignored row.
// dlogits may be softmax.
func SoftmaxCrossEntropyGrad[T tensor.Float](dlogits, softmax []T, labels []int64, dloss []T, rows, classes int, ignored int64) {
	for r := range rows {
		y, to, g := softmax[r*classes:][:classes], dlogits[r*classes:][:classes], dloss[r]
		l := labels[r]
		if l == ignored {
			clear(to)
			continue
		}
		atLabel := (y[l] - 1) * g
		mulScalar(to, y, g)
		to[l] = atLabel
	}
}

// SoftmaxCrossEntropySoft is SoftmaxCrossEntropy for labels that are a distribution over the classes:
// loss[r] = sum over c of labels[r,c]*(logsumexp(r) - logits[r,c]).
func SoftmaxCrossEntropySoft[T tensor.Float](softmax, loss, logits, labels []T, rows, classes int) {
	for r := range rows {
		x, w := logits[r*classes:][:classes], labels[r*classes:][:classes]
		logSumExp := softmaxRow(softmax[r*classes:][:classes], x)
		total := 0.0
		for c := range x {
			if w[c] != 0 {
				total += float64(w[c]) * (logSumExp - float64(x[c]))
			}
		}
		loss[r] = T(total)
	}
}

// SoftmaxCrossEntropySoftGrad computes dlogits[r,c] = dloss[r]*(softmax[r,c] - labels[r,c]). As in Fluid this takes each
// row of labels to sum to 1. dlogits may be softmax.
func SoftmaxCrossEntropySoftGrad[T tensor.Float](dlogits, softmax, labels, dloss []T, rows, classes int) {
	for r := range rows {
		y, w := softmax[r*classes:][:classes], labels[r*classes:][:classes]
		to, g := dlogits[r*classes:][:classes], dloss[r]
		for c := range to {
			to[c] = (y[c] - w[c]) * g
		}
	}
}
