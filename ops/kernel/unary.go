package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The unary functions write f(x[i]) to out[i]. Both slices are of one length, and out may be x. The functions of
// package math are evaluated in float64 and rounded to T, but where vector instructions compute Sigmoid, Tanh and Exp of
// float32, within 2 units in the last place. NaN gives NaN unless said.

// Relu computes max(x, 0).
func Relu[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Relu(singles(out), singles(x))
		return
	}
	for i := range out {
		out[i] = max(x[i], 0)
	}
}

// Sigmoid computes 1/(1+exp(-x)). In float64 exp overflows to infinity only where the result rounds to 0 anyway, so one
// formula serves every x.
func Sigmoid[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	if v := vectorsOf[T](); v != nil {
		v.Sigmoid(singles(out), singles(x))
		return
	}
	for i := range out {
		out[i] = T(1 / (1 + math.Exp(-float64(x[i]))))
	}
}

// Tanh computes the hyperbolic tangent.
func Tanh[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	if v := vectorsOf[T](); v != nil {
		v.Tanh(singles(out), singles(x))
		return
	}
	for i := range out {
		out[i] = T(math.Tanh(float64(x[i])))
	}
}

// Exp computes e**x.
func Exp[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	if v := vectorsOf[T](); v != nil {
		v.Exp(singles(out), singles(x), 0)
		return
	}
	for i := range out {
		out[i] = T(math.Exp(float64(x[i])))
	}
}

// Log computes the natural logarithm: -Inf for 0, NaN below.
func Log[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(math.Log(float64(x[i])))
	}
}

// Sqrt computes the square root, NaN below 0.
func Sqrt[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = sqrt(x[i])
	}
}

// sqrt is correctly rounded for both types, since float64 has more than twice the digits of float32.
func sqrt[T tensor.Float](x T) T { return T(math.Sqrt(float64(x))) }

// Square computes x*x.
func Square[T tensor.Float](out, x []T) {
	mulVectors(out, x, x)
}

// Abs computes the absolute value.
func Abs[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = abs(x[i])
	}
}

func abs[T tensor.Float](x T) T { return T(math.Abs(float64(x))) }

// Sign computes 1, 0 or -1; NaN gives 0, as in Fluid.
func Sign[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = sign(x[i])
	}
}

func sign[T tensor.Float](x T) T {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// Floor computes the greatest integer not above x.
func Floor[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(math.Floor(float64(x[i])))
	}
}

// Ceil computes the least integer not below x.
func Ceil[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(math.Ceil(float64(x[i])))
	}
}

// Softsign computes x/(1+|x|).
func Softsign[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = x[i] / (1 + abs(x[i]))
	}
}

// Reciprocal computes 1/x.
func Reciprocal[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = 1 / x[i]
	}
}

// Cos computes the cosine of x in radians.
func Cos[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(math.Cos(float64(x[i])))
	}
}

// Scale computes out = scale*x + bias, or out = scale*(x+bias) with biasAfterScale false (Fluid's scale). Its gradient is
// Scale of dout with bias 0. The slices are of one length; out may be x.
func Scale[T Number](out, x []T, scale, bias T, biasAfterScale bool) {
	x = x[:len(out)]
	v := vectorsFor[T](len(out))
	switch {
	case v != nil && biasAfterScale:
		v.ScaleBias(singles(out), singles(x), float32(scale), float32(bias))
		return
	case v != nil:
		v.BiasScale(singles(out), singles(x), float32(scale), float32(bias))
		return
	case biasAfterScale:
		for i := range out {
			out[i] = T(scale*x[i]) + bias
		}
		return
	}
	for i := range out {
		out[i] = scale * (x[i] + bias)
	}
}

// Clip computes out = x limited to [low, high] (Fluid's clip). NaN stays NaN. The slices are of one length; out may be x.
func Clip[T tensor.Float](out, x []T, low, high T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = min(max(x[i], low), high)
	}
}

// ClipGrad computes dx = dout where low < x < high, else 0. The slices are of one length; dx may be dout.
func ClipGrad[T tensor.Float](dx, x, dout []T, low, high T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := dout[i]
		if !(x[i] > low && x[i] < high) {
			g = 0
		}
		dx[i] = g
	}
}

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
