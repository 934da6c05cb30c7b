package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Norms of lanes: a tensor has the form [pre, extent, post], and a norm is of extent elements that lie post apart. The functions do the lanes of [from, to)
// of pre. Sums are computed in float64, in the order of the elements.

// L1Norm returns the sum of magnitudes.
func L1Norm[T tensor.Float](x []T) T {
	s := 0.0
	for _, v := range x {
		s += math.Abs(float64(v))
	}
	return T(s)
}

// PNorm computes the norm of order p of each lane. Order 0 counts what is not 0; infinite orders find the largest or smallest magnitude.
func PNorm[T tensor.Float](out, x []T, extent, post int, p float64, from, to int) {
	for i := from; i < to; i++ {
		for q := range post {
			at := i*extent*post + q
			s := 0.0
			if math.IsInf(p, -1) && extent > 0 {
				s = math.Inf(1)
			}
			for k := range extent {
				v := math.Abs(float64(x[at+k*post]))
				switch {
				case p == 0 && v != 0:
					s++
				case p == 0:
				case math.IsInf(p, 1):
					s = max(s, v)
				case math.IsInf(p, -1):
					s = min(s, v)
				case p == 1:
					s += v
				case p == 2:
					s += v * v
				default:
					s += math.Pow(v, p)
				}
			}
			switch {
			case p == 2:
				s = math.Sqrt(s)
			case p != 0 && p != 1 && !math.IsInf(p, 0):
				s = math.Pow(s, 1/p)
			}
			out[i*post+q] = T(s)
		}
	}
}

// PNormGrad computes the gradient of PNorm from its input, its result and the gradient of the result.
func PNormGrad[T tensor.Float](dx, x, out, dout []T, extent, post int, p, epsilon float64, from, to int) {
	for i := from; i < to; i++ {
		for q := range post {
			norm, g := out[i*post+q], dout[i*post+q]
			for k := range extent {
				at := (i*extent+k)*post + q
				dx[at] = normSlope(x[at], norm, g, p, epsilon)
			}
		}
	}
}

// NormGrad computes the gradient of one norm of order p in each of its elements.
func NormGrad[T tensor.Float](dx, x []T, norm, dout T, p float64) {
	for i, v := range x {
		dx[i] = normSlope(v, norm, dout, p, 0)
	}
}

func normSlope[T tensor.Float](x, norm, dout T, p, epsilon float64) T {
	v := math.Abs(float64(x))
	switch {
	case p == 0 || v == 0:
		return 0
	case math.IsInf(p, 0):
		if T(v) != norm {
			return 0
		}
		return dout * sign(x)
	case p == 1:
		return dout * sign(x)
	}
	return T(float64(dout*sign(x)) * math.Pow(v/(float64(norm)+epsilon), p-1))
}

// lengthOf returns the Euclidean norm of the lane that begins at x[at], with epsilon added to the sum of squares.
func lengthOf[T tensor.Float](x []T, at, extent, post int, epsilon float64) float64 {
	s := epsilon
	for k := range extent {
		v := float64(x[at+k*post])
		s += v * v
	}
	return math.Sqrt(s)
}

// NormaliseLanes divides each lane by its Euclidean norm (Fluid's norm). out or norm may be nil.
func NormaliseLanes[T tensor.Float](out, norm, x []T, extent, post int, epsilon float64, from, to int) {
	for i := from; i < to; i++ {
		for q := range post {
			at := i*extent*post + q
			length := lengthOf(x, at, extent, post, epsilon)
			if norm != nil {
				norm[i*post+q] = T(length)
			}
			for k := 0; out != nil && k < extent; k++ {
				out[at+k*post] = T(float64(x[at+k*post]) / length)
			}
		}
	}
}

// NormaliseLanesGrad computes the gradient of NormaliseLanes: dx = dout/norm - x*sum(x*dout)/norm**3. dx may be dout.
func NormaliseLanesGrad[T tensor.Float](dx, x, dout []T, extent, post int, epsilon float64, from, to int) {
	for i := from; i < to; i++ {
		for q := range post {
			at := i*extent*post + q
			length, product := lengthOf(x, at, extent, post, epsilon), 0.0
			for k := range extent {
				product += float64(x[at+k*post]) * float64(dout[at+k*post])
			}
			for k := range extent {
				j := at + k*post
				dx[j] = T(float64(dout[j])/length - float64(x[j])*product/(length*length*length))
			}
		}
	}
}
