package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The gradients of the unary functions share one signature, so that ops can table them: dx[i] = dout[i] * f'(x[i]). Each
// names whether it reads x, out or neither; what it does not read may be nil. All slices that it reads are as long as dx.
// dx may be dout itself.

// ReluGrad reads out: dx = dout where out > 0, else 0.
func ReluGrad[T tensor.Float](dx, x, out, dout []T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	if v := vectorsFor[T](len(dx)); v != nil {
		v.ReluGrad(singles(dx), singles(out), singles(dout))
		return
	}
	for i := range dx {
		g := dout[i]
		if !(out[i] > 0) {
			g = 0
		}
		dx[i] = g
	}
}

// SigmoidGrad reads out: dx = dout*out*(1-out).
func SigmoidGrad[T tensor.Float](dx, x, out, dout []T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	if v := vectorsFor[T](len(dx)); v != nil {
		v.SigmoidGrad(singles(dx), singles(out), singles(dout))
		return
	}
	for i := range dx {
		dx[i] = dout[i] * out[i] * (1 - out[i])
	}
}

// TanhGrad reads out: dx = dout*(1-out*out).
func TanhGrad[T tensor.Float](dx, x, out, dout []T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	if v := vectorsFor[T](len(dx)); v != nil {
		v.TanhGrad(singles(dx), singles(out), singles(dout))
		return
	}
	for i := range dx {
		dx[i] = dout[i] * (1 - T(out[i]*out[i]))
	}
}

// ExpGrad reads out: dx = dout*out.
func ExpGrad[T tensor.Float](dx, x, out, dout []T) {
	mulVectors(dx, dout, out)
}

// LogGrad reads x: dx = dout/x.
func LogGrad[T tensor.Float](dx, x, out, dout []T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		dx[i] = dout[i] / x[i]
	}
}

// SqrtGrad reads out: dx = 0.5*dout/out.
func SqrtGrad[T tensor.Float](dx, x, out, dout []T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	for i := range dx {
		dx[i] = 0.5 * dout[i] / out[i]
	}
}

// SquareGrad reads x: dx = 2*dout*x.
func SquareGrad[T tensor.Float](dx, x, out, dout []T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	if v := vectorsFor[T](len(dx)); v != nil {
		v.SquareGrad(singles(dx), singles(x), singles(dout))
		return
	}
	for i := range dx {
		dx[i] = 2 * dout[i] * x[i]
	}
}

// AbsGrad reads x: dx = dout*sign(x), 0 at 0.
func AbsGrad[T tensor.Float](dx, x, out, dout []T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		dx[i] = dout[i] * sign(x[i])
	}
}

// ZeroGrad reads nothing: dx = 0, the gradient of Sign, Floor and Ceil.
func ZeroGrad[T tensor.Float](dx, x, out, dout []T) { clear(dx) }

// SoftsignGrad reads x: dx = dout/(1+|x|)^2.
func SoftsignGrad[T tensor.Float](dx, x, out, dout []T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		d := 1 + abs(x[i])
		dx[i] = dout[i] / (d * d)
	}
}

// ReciprocalGrad reads out: dx = -dout*out*out.
func ReciprocalGrad[T tensor.Float](dx, x, out, dout []T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	for i := range dx {
		dx[i] = -dout[i] * out[i] * out[i]
	}
}

// CosGrad reads x: dx = -dout*sin(x).
func CosGrad[T tensor.Float](dx, x, out, dout []T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		dx[i] = -dout[i] * T(math.Sin(float64(x[i])))
	}
}
