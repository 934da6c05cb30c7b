package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// FirstBadLabel returns the index of the first label that is neither in [0, classes) nor ignored, -1 if there is none. Functions with hard labels
// require -1.
func FirstBadLabel(labels []int64, classes, ignored int64) int {
	for i, l := range labels {
		if (l < 0 || l >= classes) && l != ignored {
			return i
		}
	}
	return -1
}

// lossLimit is the loss for a probability of zero. As in Fluid, it avoids infinite losses.
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

// CrossEntropyGrad computes dx[r, labels[r]] = -dout[r]/x[r, labels[r]] and 0 elsewhere. dx may be x.
func CrossEntropyGrad[T tensor.Float](dx, x []T, labels []int64, dout []T, rows, classes int, ignored int64) {
	for r := range rows {
		p, to := x[r*classes:][:classes], dx[r*classes:][:classes]
		l := labels[r]
		if l == ignored {
			clear(to)
			continue
		}
		atLabel := -dout[r] / p[l]
		clear(to)
		to[l] = atLabel
	}
}

// CrossEntropySoft computes out[r] = -sum over c of labels[r,c]*log(x[r,c]), where labels are a distribution over the
// classes. A class of label 0 adds nothing, even for a probability of 0.
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

// CrossEntropySoftGrad computes dx[r,c] = -dout[r]*labels[r,c]/x[r,c]. dx may be x.
func CrossEntropySoftGrad[T tensor.Float](dx, x, labels, dout []T, rows, classes int) {
	for r := range rows {
		p, w := x[r*classes:][:classes], labels[r*classes:][:classes]
		to := dx[r*classes:][:classes]
		for c := range to {
			slope := T(0)
			if w[c] != 0 {
				slope = -dout[r] * w[c] / p[c]
			}
			to[c] = slope
		}
	}
}

// SoftmaxCrossEntropy computes the softmax of each row of logits and, from the logarithm of the sum of exponentials
// rather than from the rounded probabilities, loss[r] = -log(softmax[r, labels[r]]). A row whose label is ignored costs
// 0. loss and labels hold rows elements. softmax and logits do not overlap: the loss reads the logits after the softmax is
// written.
func SoftmaxCrossEntropy[T tensor.Float](softmax, loss, logits []T, labels []int64, rows, classes int, ignored int64) {
	for r := range rows {
		x := logits[r*classes:][:classes]
		logSum := logSumExp(softmaxRow(softmax[r*classes:][:classes], x))
		loss[r] = 0
		if l := labels[r]; l != ignored {
			loss[r] = T(logSum - float64(x[l]))
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
		logSum := logSumExp(softmaxRow(softmax[r*classes:][:classes], x))
		total := 0.0
		for c := range x {
			if w[c] != 0 {
				total += float64(w[c]) * (logSum - float64(x[c]))
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

// SigmoidCrossEntropy computes out = max(x, 0) - x*label + log(1 + exp(-|x|)), elementwise (Fluid's sigmoid_cross_entropy_with_logits):
// the cross entropy of sigmoid(x) without its loss of precision. Elements whose label is ignored become zero. The slices are of one
// length; out may be x.
func SigmoidCrossEntropy[T tensor.Float](out, x, label []T, ignored T) {
	x, label = x[:len(out)], label[:len(out)]
	for i := range out {
		if label[i] == ignored {
			out[i] = 0
			continue
		}
		v := float64(x[i])
		out[i] = T(max(v, 0) - v*float64(label[i]) + math.Log1p(math.Exp(-math.Abs(v))))
	}
}

// SigmoidCrossEntropyGrad computes dx = dout*(sigmoid(x) - label), and zero where the label is ignored. The slices are of one
// length; dx may be dout.
func SigmoidCrossEntropyGrad[T tensor.Float](dx, x, label, dout []T, ignored T) {
	x, label, dout = x[:len(dx)], label[:len(dx)], dout[:len(dx)]
	for i := range dx {
		if label[i] == ignored {
			dx[i] = 0
			continue
		}
		dx[i] = T(float64(dout[i]) * (1/(1+math.Exp(-float64(x[i]))) - float64(label[i])))
	}
}

// LogLoss computes out = -label*log(p+epsilon) - (1-label)*log(1-p+epsilon), elementwise (Fluid's log_loss). The slices are of
// one length; out may be p.
func LogLoss[T tensor.Float](out, p, label []T, epsilon float64) {
	p, label = p[:len(out)], label[:len(out)]
	for i := range out {
		q, l := float64(p[i]), float64(label[i])
		out[i] = T(-l*math.Log(q+epsilon) - (1-l)*math.Log(1-q+epsilon))
	}
}

// LogLossGrad computes dp = dout*((1-label)/(1-p+epsilon) - label/(p+epsilon)). The slices are of one length; dp may be dout.
func LogLossGrad[T tensor.Float](dp, p, label, dout []T, epsilon float64) {
	p, label, dout = p[:len(dp)], label[:len(dp)], dout[:len(dp)]
	for i := range dp {
		q, l := float64(p[i]), float64(label[i])
		dp[i] = T(float64(dout[i]) * ((1-l)/(1-q+epsilon) - l/(q+epsilon)))
	}
}

// LabelSmooth computes out = (1-epsilon)*x + epsilon*prior for each row of width len(prior), and with a nil prior
// out = (1-epsilon)*x + epsilon/classes (Fluid's label_smooth). out may be x.
func LabelSmooth[T tensor.Float](out, x, prior []T, classes int, epsilon T) {
	x = x[:len(out)]
	share := epsilon / T(classes)
	for i := range out {
		if prior != nil {
			share = epsilon * prior[i%classes]
		}
		out[i] = (1-epsilon)*x[i] + share
	}
}
