package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// SmoothL1 computes Fluid's smooth_l1_loss of rows of so many elements: with d = inside*(x - y), out is the sum along a row of outside*(s*d*d/2 where
// |d| < 1/s, else |d| - 1/(2*s)), s being the square of sigma. inside and outside may be nil, for weights of 1; diff, which gets d, may be nil.
// (Girshick 2015.)
func SmoothL1[T tensor.Float](out, diff, x, y, inside, outside []T, width int, s float64) {
	for i := range out {
		sum := 0.0
		for j := i * width; j < (i+1)*width; j++ {
			d := float64(x[j]) - float64(y[j])
			if inside != nil {
				d *= float64(inside[j])
			}
			if diff != nil {
				diff[j] = T(d)
			}
			size := math.Abs(d)
			loss := size - 0.5/s
			if size < 1/s {
				loss = 0.5 * s * d * d
			}
			if outside != nil {
				loss *= float64(outside[j])
			}
			sum += loss
		}
		out[i] = T(sum)
	}
}

// SmoothL1Grad computes the gradients of x and of y from the diff that SmoothL1 keeps. dx and dy may be nil.
func SmoothL1Grad[T tensor.Float](dx, dy, diff, inside, outside, dout []T, width int, s float64) {
	for i, d := range dout {
		for j := i * width; j < (i+1)*width; j++ {
			slope := max(-1, min(s*float64(diff[j]), 1))
			if inside != nil {
				slope *= float64(inside[j])
			}
			if outside != nil {
				slope *= float64(outside[j])
			}
			slope *= float64(d)
			if dx != nil {
				dx[j] = T(slope)
			}
			if dy != nil {
				dy[j] = T(-slope)
			}
		}
	}
}

// BPRLoss computes Fluid's bpr_loss of rows with a score for each of so many classes: the mean over the other classes of log(1 + exp(score of the other -
// score of the label)). Labels are checked. (Hidasi et al. 2016.)
func BPRLoss[T tensor.Float](out, x []T, labels []int64, classes int) {
	for i, label := range labels {
		row := x[i*classes : (i+1)*classes]
		right, sum := float64(row[label]), 0.0
		for j, score := range row {
			if j != int(label) {
				sum += log1pexp(float64(score) - right)
			}
		}
		out[i] = T(sum / float64(classes-1))
	}
}

// BPRLossGrad is the gradient of x in BPRLoss.
func BPRLossGrad[T tensor.Float](dx, x, dout []T, labels []int64, classes int) {
	for i, label := range labels {
		row, to := x[i*classes:(i+1)*classes], dx[i*classes:(i+1)*classes]
		share, right, sum := float64(dout[i])/float64(classes-1), float64(row[label]), 0.0
		for j, score := range row {
			if j != int(label) {
				slope := share * sigmoid(float64(score)-right)
				to[j] = T(slope)
				sum += slope
			}
		}
		to[label] = T(-sum)
	}
}

// KLDivergence computes Fluid's kldiv_loss of logarithms x of probabilities and target probabilities: target*(log(target) - x), 0 where target is not
// above 0. out may be x or target.
func KLDivergence[T tensor.Float](out, x, target []T) {
	for i, p := range target {
		loss := 0.0
		if p > 0 {
			loss = float64(p) * (math.Log(float64(p)) - float64(x[i]))
		}
		out[i] = T(loss)
	}
}

// KLDivergenceGrad computes dx = -target*dloss/n, 0 where target is not above 0. One dloss counts for all elements.
func KLDivergenceGrad[T tensor.Float](dx, target, dloss []T, n int) {
	for i, p := range target {
		d := dloss[0]
		if len(dloss) > 1 {
			d = dloss[i]
		}
		dx[i] = T(-float64(max(p, 0)) * float64(d) / float64(n))
	}
}

// SigmoidFocalLoss computes Fluid's sigmoid_focal_loss of rows with a logit x for each of so many classes. Class c of a row with the label c + 1 costs
// -alpha*(1 - p)**gamma*log(p), p being sigmoid(x), and each other class -(1 - alpha)*p**gamma*log(1 - p), all divided by n. Rows with the label -1 cost nothing.
// (Lin et al. 2017.)
func SigmoidFocalLoss[T tensor.Float](out, x []T, labels []int32, classes int, gamma, alpha, n float64) {
	for i, label := range labels {
		for c := range classes {
			at := i*classes + c
			v, loss := float64(x[at]), 0.0
			switch p := sigmoid(v); {
			case int(label) == c+1:
				loss = alpha * math.Pow(sigmoid(-v), gamma) * log1pexp(-v)
			case label != -1:
				loss = (1 - alpha) * math.Pow(p, gamma) * log1pexp(v)
			}
			out[at] = T(loss / n)
		}
	}
}

// SigmoidFocalLossGrad is the gradient of x in SigmoidFocalLoss. dx may be dout.
func SigmoidFocalLossGrad[T tensor.Float](dx, x, dout []T, labels []int32, classes int, gamma, alpha, n float64) {
	for i, label := range labels {
		for c := range classes {
			at := i*classes + c
			v, slope := float64(x[at]), 0.0
			p, q := sigmoid(v), sigmoid(-v)
			switch {
			case int(label) == c+1:
				slope = -alpha * math.Pow(q, gamma) * (q + gamma*p*log1pexp(-v))
			case label != -1:
				slope = (1 - alpha) * math.Pow(p, gamma) * (p + gamma*q*log1pexp(v))
			}
			dx[at] = T(float64(dout[at]) * slope / n)
		}
	}
}
