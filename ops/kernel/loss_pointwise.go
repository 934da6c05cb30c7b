package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// A PointLoss is the loss of one example that up to three numbers describe: a prediction and its label, or two predictions and their label.
// It returns the loss and a number that its slope may need again.
type PointLoss func(at [3]float64) (loss, kept float64)

// A PointSlope returns the derivatives of a PointLoss with respect to its numbers. A number that its caller lacks is 0.
type PointSlope func(at [3]float64, kept float64) [3]float64

// PointLosses computes loss[i] and kept[i] of the numbers at[0][i], at[1][i] and at[2][i], evaluated in float64. Slices of at may be nil, for numbers that
// the loss does not have; loss and kept may be nil. Others are of length n. loss and kept may be slices of at.
func PointLosses[T tensor.Float](loss, kept []T, at [3][]T, n int, f PointLoss) {
	for i := range n {
		l, k := f(numbersAt(at, i))
		if loss != nil {
			loss[i] = T(l)
		}
		if kept != nil {
			kept[i] = T(k)
		}
	}
}

// PointLossesGrad computes dat[k][i] = dloss[i]*slope[k], evaluated in float64. Slices of at, and kept, may be nil if the slope does not need them, those
// of dat if nobody wants them. A slice of dat may be dloss.
func PointLossesGrad[T tensor.Float](dat, at [3][]T, kept, dloss []T, slope PointSlope) {
	for i, d := range dloss {
		middle := 0.0
		if kept != nil {
			middle = float64(kept[i])
		}
		s := slope(numbersAt(at, i), middle)
		for k, to := range dat {
			if to != nil {
				to[i] = T(float64(d) * s[k])
			}
		}
	}
}

func numbersAt[T tensor.Float](at [3][]T, i int) (numbers [3]float64) {
	for k, x := range at {
		if x != nil {
			numbers[k] = float64(x[i])
		}
	}
	return numbers
}

// HuberLoss is Fluid's huber_loss of a prediction and a label: with r = label - prediction, r²/2 where |r| <= delta, else delta*(|r| - delta/2). It keeps
// r. (Huber 1964.)
func HuberLoss(delta float64) (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			r := at[1] - at[0]
			if size := math.Abs(r); size > delta {
				return delta * (size - delta/2), r
			}
			return r * r / 2, r
		}, func(_ [3]float64, r float64) [3]float64 {
			s := max(-delta, min(r, delta))
			return [3]float64{-s, s}
		}
}

// ModifiedHuberLoss is Fluid's modified_huber_loss of a score and a label 0 or 1: with v = score*(2*label - 1), -4v where v < -1, (1 - v)² up to 1, and
// then 0. It keeps v. Its slope needs the label and v. (Zhang 2004.)
func ModifiedHuberLoss() (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			v := at[0] * (2*at[1] - 1)
			switch {
			case v < -1:
				return -4 * v, v
			case v < 1:
				return (1 - v) * (1 - v), v
			}
			return 0, v
		}, func(at [3]float64, v float64) [3]float64 {
			side := 2*at[1] - 1
			switch {
			case v < -1:
				return [3]float64{-4 * side}
			case v < 1:
				return [3]float64{-2 * (1 - v) * side}
			}
			return [3]float64{}
		}
}

// HingeLoss is Fluid's hinge_loss of a score and a label 0 or 1: max(0, 1 - score*(2*label - 1)).
func HingeLoss() (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			return max(0, 1-at[0]*(2*at[1]-1)), 0
		}, func(at [3]float64, _ float64) [3]float64 {
			if side := 2*at[1] - 1; at[0]*side < 1 {
				return [3]float64{-side}
			}
			return [3]float64{}
		}
}

// RankLoss is Fluid's rank_loss of a label and the scores of a left and a right example: log(1 + exp(d)) - label*d with d = left - right. A label of 1 says
// that the left one ranks higher. (Burges et al. 2005.)
func RankLoss() (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			d := at[1] - at[2]
			return log1pexp(d) - at[0]*d, 0
		}, func(at [3]float64, _ float64) [3]float64 {
			d := at[1] - at[2]
			s := sigmoid(d) - at[0]
			return [3]float64{-d, s, -s}
		}
}

// MarginRankLoss is Fluid's margin_rank_loss of a label and the scores of two examples: max(0, margin - label*(first - second)). A label of 1 says that the
// first one ranks higher, -1 the second. It keeps 1 where the loss is above 0, else 0. Its slope needs the label and that.
func MarginRankLoss(margin float64) (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			if loss := margin - at[0]*(at[1]-at[2]); !(loss <= 0) { // NaN too
				return loss, 1
			}
			return 0, 0
		}, func(at [3]float64, active float64) [3]float64 {
			s := active * at[0]
			return [3]float64{0, -s, s}
		}
}

// TeacherStudentLoss is Fluid's teacher_student_sigmoid_loss of a logit x and a label, which tells a click and, of those examples that have one, the score q
// of a teacher: -2 no click, -1 a click, q in [0, 1) no click, 1 + q a click. It is the cross entropy of the click, plus that of q if there is one. The
// slope is 0 for logits beyond the bounds.
func TeacherStudentLoss(low, high float64) (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			x, label := at[0], at[1]
			click, score, scored := teacherLabel(label)
			loss := log1pexp(x) - x*click
			if scored {
				loss += log1pexp(x) - x*score
			}
			return loss, 0
		}, func(at [3]float64, _ float64) [3]float64 {
			x, label := at[0], at[1]
			if x >= high || x <= low {
				return [3]float64{}
			}
			click, score, scored := teacherLabel(label)
			s := sigmoid(x) - click
			if scored {
				s += sigmoid(x) - score
			}
			return [3]float64{s}
		}
}

func teacherLabel(label float64) (click, score float64, scored bool) {
	switch {
	case label < -1:
		return 0, 0, false
	case label < 0:
		return 1, 0, false
	case label < 1:
		return 0, label, true
	}
	return 1, label - 1, true
}

// BinaryCrossEntropy is Paddle's bce_loss of a probability p and a label in [0, 1]: -label*log(p) - (1 - label)*log(1 - p), logarithms not below -100. Its
// slope divides by p*(1 - p), or by 1e-12 if that is smaller.
func BinaryCrossEntropy() (PointLoss, PointSlope) {
	return func(at [3]float64) (float64, float64) {
			p, label := at[0], at[1]
			return -label*max(math.Log(p), -100) - (1-label)*max(math.Log1p(-p), -100), 0
		}, func(at [3]float64, _ float64) [3]float64 {
			p, label := at[0], at[1]
			return [3]float64{(p - label) / max(p*(1-p), 1e-12)}
		}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
