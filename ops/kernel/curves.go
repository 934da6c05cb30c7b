package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The functions of this file are smooth. Each writes f(x[i]) to out[i], and its gradient writes dx[i] = dout[i]*f'(x[i]), where a number below 1 or
// above the largest keeps its precision as far as the formula says. The slices of a call are of one length. They may not overlap unless said.

// Map computes f(x), evaluated in float64. out may be x.
func Map[T tensor.Float](out, x []T, f func(float64) float64) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(f(float64(x[i])))
	}
}

// MapGrad computes dx = dout*slope(at), evaluated in float64. dx may be dout or at.
func MapGrad[T tensor.Float](dx, at, dout []T, slope func(float64) float64) {
	at, dout = at[:len(dx)], dout[:len(dx)]
	for i := range dx {
		dx[i] = T(float64(dout[i]) * slope(float64(at[i])))
	}
}

// Swish computes x*sigmoid(beta*x).
func Swish[T tensor.Float](out, x []T, beta T) {
	x = x[:len(out)]
	sigmoidOf(out, x, beta)
	for i := range out {
		y := out[i] * x[i]
		if out[i] == 0 { // -Inf too
			y = 0
		}
		out[i] = y
	}
}

func sigmoidOf[T tensor.Float](out, x []T, beta T) {
	if beta == 1 {
		Sigmoid(out, x)
		return
	}
	mulScalar(out, x, beta)
	Sigmoid(out, out)
}

// SwishGrad reads x: with s = sigmoid(beta*x), dx = dout*(s + beta*x*s*(1-s)).
func SwishGrad[T tensor.Float](dx, x, dout []T, beta T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	sigmoidOf(dx, x, beta)
	for i := range dx {
		s := dx[i]
		rest := T(s * (1 - s))
		if rest != 0 {
			rest *= T(beta * x[i])
		}
		dx[i] = dout[i] * (s + rest)
	}
}

const (
	rootHalf     = 0.7071067811865475244 // 1/sqrt(2)
	rootTwoByPi  = 0.7978845608028653559 // sqrt(2/pi)
	invRootTwoPi = 0.3989422804014326779 // 1/sqrt(2*pi)
	geluCubic    = 0.044715
)

// Gelu computes x times the normal distribution function of x: 0.5*x*(1 + erf(x/sqrt(2))). out may be x.
func Gelu[T tensor.Float](out, x []T) {
	Map(out, x, func(v float64) float64 {
		if v < -40 { // -Inf too
			return 0
		}
		return 0.5 * v * math.Erfc(-v*rootHalf)
	})
}

// GeluGrad reads x: dx = dout*(P(x) + x*p(x)), where P is the normal distribution function and p its density. dx may be dout.
func GeluGrad[T tensor.Float](dx, x, dout []T) {
	MapGrad(dx, x, dout, func(v float64) float64 {
		if math.Abs(v) > 40 {
			return min(max(v, 0), 1)
		}
		return 0.5*math.Erfc(-v*rootHalf) + v*invRootTwoPi*math.Exp(-0.5*v*v)
	})
}

// GeluTanh approximates Gelu by 0.5*x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3))).
func GeluTanh[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	geluTanh(out, x)
	for i := range out {
		y := 1 + out[i]
		if y != 0 { // -Inf has none
			y *= T(0.5 * x[i])
		}
		out[i] = y
	}
}

func geluTanh[T tensor.Float](out, x []T) {
	for i := range out {
		v := x[i]
		out[i] = rootTwoByPi * v * (1 + T(geluCubic*v*v))
	}
	Tanh(out, out)
}

// GeluTanhGrad reads x: the derivative of the formula of GeluTanh times dout.
func GeluTanhGrad[T tensor.Float](dx, x, dout []T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	geluTanh(dx, x)
	for i := range dx {
		t, v := dx[i], x[i]
		rest := 1 - T(t*t)
		if rest != 0 {
			rest *= T(0.5*rootTwoByPi*v) * (1 + T(3*geluCubic*v*v))
		}
		dx[i] = dout[i] * (T(0.5*(1+t)) + rest)
	}
}

// Elu computes x above 0, else alpha*(e**x - 1). out may be x.
func Elu[T tensor.Float](out, x []T, alpha T) {
	x = x[:len(out)]
	for i := range out {
		y := x[i]
		if !(y > 0) {
			y = T(float64(alpha) * math.Expm1(float64(y)))
		}
		out[i] = y
	}
}

// EluGrad reads x: dx = dout above 0, else dout*alpha*e**x. dx may be dout.
func EluGrad[T tensor.Float](dx, x, dout []T, alpha T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := dout[i]
		if !(x[i] > 0) {
			g = T(float64(g) * float64(alpha) * math.Exp(float64(x[i])))
		}
		dx[i] = g
	}
}

// Selu computes scale times Elu. out may be x.
func Selu[T tensor.Float](out, x []T, scale, alpha T) {
	Elu(out, x, alpha)
	mulScalar(out, out, scale)
}

// SeluGrad reads out: dx = dout*scale above 0, else dout*(out + scale*alpha). dx may be dout.
func SeluGrad[T tensor.Float](dx, out, dout []T, scale, alpha T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	for i := range dx {
		slope := scale
		if !(out[i] > 0) {
			slope = out[i] + T(scale*alpha)
		}
		dx[i] = dout[i] * slope
	}
}

// Softplus computes log(1 + e**(beta*x))/beta, and x where beta*x > threshold. out may be x.
func Softplus[T tensor.Float](out, x []T, beta, threshold T) {
	x = x[:len(out)]
	for i := range out {
		y, bx := x[i], beta*x[i]
		if !(bx > threshold) {
			y = T(log1pexp(float64(bx)) / float64(beta))
		}
		out[i] = y
	}
}

// SoftplusGrad reads x: dx = dout*sigmoid(beta*x), and dout where beta*x > threshold. dx may be dout.
func SoftplusGrad[T tensor.Float](dx, x, dout []T, beta, threshold T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g, bx := dout[i], beta*x[i]
		if !(bx > threshold) {
			g = T(float64(g) / (1 + math.Exp(-float64(bx))))
		}
		dx[i] = g
	}
}

// log1pexp computes log(1 + e**x) without overflow.
func log1pexp(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// LogSigmoid computes log(sigmoid(x)). out may be x.
func LogSigmoid[T tensor.Float](out, x []T) {
	Map(out, x, func(v float64) float64 { return -log1pexp(-v) })
}

// LogSigmoidGrad reads x: dx = dout*sigmoid(-x). dx may be dout.
func LogSigmoidGrad[T tensor.Float](dx, x, dout []T) {
	MapGrad(dx, x, dout, func(v float64) float64 { return 1 / (1 + math.Exp(v)) })
}

// SoftRelu computes log(1 + e**x) of x limited to [-threshold, threshold]. out may be x.
func SoftRelu[T tensor.Float](out, x []T, threshold T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(log1pexp(float64(min(max(x[i], -threshold), threshold))))
	}
}

// SoftReluGrad reads out: dx = dout*(1 - e**-out), and 0 where out says that x was limited. dx may be dout.
func SoftReluGrad[T tensor.Float](dx, out, dout []T, threshold T) {
	low, high := T(log1pexp(float64(-threshold))), T(log1pexp(float64(threshold)))
	out, dout = out[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := T(0)
		if out[i] > low && out[i] < high {
			g = T(float64(dout[i]) * -math.Expm1(-float64(out[i])))
		}
		dx[i] = g
	}
}

// Stanh computes b*tanh(a*x). out may be x.
func Stanh[T tensor.Float](out, x []T, a, b T) {
	mulScalar(out, x[:len(out)], a)
	Tanh(out, out)
	mulScalar(out, out, b)
}

// StanhGrad reads x: dx = dout*a*b*(1 - tanh(a*x)^2).
func StanhGrad[T tensor.Float](dx, x, dout []T, a, b T) {
	mulScalar(dx, x[:len(dx)], a)
	Tanh(dx, dx)
	for i := range dx {
		dx[i] = dout[i] * T(a*b) * (1 - T(dx[i]*dx[i]))
	}
}

// TanhShrink computes x - tanh(x).
func TanhShrink[T tensor.Float](out, x []T) {
	x = x[:len(out)]
	Tanh(out, x)
	for i := range out {
		out[i] = x[i] - out[i]
	}
}

// TanhShrinkGrad reads x: dx = dout*tanh(x)^2.
func TanhShrinkGrad[T tensor.Float](dx, x, dout []T) {
	dout = dout[:len(dx)]
	Tanh(dx, x[:len(dx)])
	for i := range dx {
		dx[i] = dout[i] * T(dx[i]*dx[i])
	}
}

// Mish computes x*tanh(log(1 + e**x)). out may be x.
func Mish[T tensor.Float](out, x []T) {
	Map(out, x, func(v float64) float64 {
		if v < -800 { // -Inf too
			return 0
		}
		return v * math.Tanh(log1pexp(v))
	})
}

// MishGrad reads x: with t = tanh(log(1 + e**x)), dx = dout*(t + x*(1-t^2)*sigmoid(x)). dx may be dout.
func MishGrad[T tensor.Float](dx, x, dout []T) {
	MapGrad(dx, x, dout, func(v float64) float64 {
		if math.Abs(v) > 800 {
			return min(max(v, 0), 1)
		}
		t := math.Tanh(log1pexp(v))
		return t + v*(1-t*t)/(1+math.Exp(-v))
	})
}

// PowScalar computes x**exponent. out may be x.
func PowScalar[T tensor.Float](out, x []T, exponent T) {
	if exponent == 2 {
		Square(out, x)
		return
	}
	Map(out, x, func(v float64) float64 { return math.Pow(v, float64(exponent)) })
}

// PowScalarGrad reads x: dx = dout*exponent*x**(exponent-1), 0 for the exponent 0. dx may be dout.
func PowScalarGrad[T tensor.Float](dx, x, dout []T, exponent T) {
	switch exponent {
	case 0:
		clear(dx)
	case 2:
		SquareGrad(dx, x, nil, dout)
	default:
		e := float64(exponent)
		MapGrad(dx, x, dout, func(v float64) float64 { return e * math.Pow(v, e-1) })
	}
}
