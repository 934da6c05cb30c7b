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
