package math

import (
	"errors"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// number is an attribute that shapes a curve.
func number(name, doc string, standard float32) ops.Attr {
	return ops.Attr{Name: name, Doc: doc, Default: standard}
}

// positive is a number that must be above 0.
func positive(name, doc string, standard float32) ops.Attr {
	a := number(name, doc, standard)
	a.Check = func(op *program.Op) error {
		if v, ok := op.Float(name); !ok || !(v > 0) {
			return errors.New("a number above 0")
		}
		return nil
	}
	return a
}

// atLeastZero is a number that must be 0 or more.
func atLeastZero(name, doc string, standard float32) ops.Attr {
	a := number(name, doc, standard)
	a.Check = func(op *program.Op) error {
		if v, ok := op.Float(name); !ok || !(v >= 0) {
			return errors.New("a number of at least 0")
		}
		return nil
	}
	return a
}

// curves are the activations whose shape attributes set, and those that no vector function computes in one call. Defaults are Fluid's.
var curves = []curve{
	{name: "relu6", doc: "Limits each element: Out = min(max(X, 0), threshold).", gradDoc: "dOut where 0 < Out < threshold, else 0", reads: "Out", flops: 2,
		attrs: []ops.Attr{positive("threshold", "the largest result", 6)}, f32: relu6[float32], f64: relu6[float64]},
	{name: "leaky_relu", doc: "Makes negative elements small: Out = X above 0, else alpha*X.", gradDoc: "dOut where X > 0, else alpha*dOut", reads: "X", flops: 2,
		attrs: []ops.Attr{number("alpha", "slope below 0", 0.02)}, f32: leakyRelu[float32], f64: leakyRelu[float64]},
	{name: "hard_sigmoid", doc: "Approximates the sigmoid by lines: Out = slope*X + offset, limited to [0, 1].", gradDoc: "slope*dOut where 0 < Out < 1, else 0",
		reads: "Out", flops: 3, attrs: []ops.Attr{number("slope", "slope of the line", 0.2), number("offset", "value at 0", 0.5)},
		f32: hardSigmoid[float32], f64: hardSigmoid[float64]},
	{name: "hard_swish", doc: "Approximates swish by pieces: Out = X*min(max(X + offset, 0), threshold)/scale.",
		gradDoc: "dOut*(2*X + offset)/scale where 0 < X + offset < threshold, 0 below, and dOut*threshold/scale above", reads: "X", flops: 5,
		attrs: []ops.Attr{positive("threshold", "largest factor of X, before scale", 6), positive("scale", "divisor", 6), number("offset", "what is added to X", 3)},
		f32:   hardSwish[float32], f64: hardSwish[float64]},
	{name: "hard_shrink", doc: "Sets small elements to zero: Out = X where |X| > threshold, else 0.", gradDoc: "dOut where |X| > threshold, else 0", reads: "X",
		flops: 1, attrs: []ops.Attr{number("threshold", "the largest magnitude that becomes 0", 0.5)}, f32: hardShrink[float32], f64: hardShrink[float64]},
	{name: "softshrink", doc: "Moves each element towards zero: Out = X - lambda above lambda, X + lambda below -lambda, else 0.",
		gradDoc: "dOut where |X| > lambda, else 0", reads: "X", flops: 2, attrs: []ops.Attr{atLeastZero("lambda", "how far", 0.5)},
		f32: softShrink[float32], f64: softShrink[float64]},
	{name: "thresholded_relu", doc: "Sets elements up to a threshold to zero: Out = X above threshold, else 0.", gradDoc: "dOut where X > threshold, else 0",
		reads: "X", flops: 1, attrs: []ops.Attr{number("threshold", "the largest element that becomes 0", 1)}, f32: thresholdedRelu[float32], f64: thresholdedRelu[float64]},
	{name: "brelu", doc: "Limits each element: Out = X limited to [t_min, t_max].", gradDoc: "dOut where t_min < X < t_max, else 0", reads: "X", flops: 2,
		attrs: []ops.Attr{number("t_min", "the smallest result", 0), number("t_max", "the largest result", 24)}, f32: brelu[float32], f64: brelu[float64]},
	{name: "elu", doc: "Bends negative elements: Out = X above 0, else alpha*(e**X - 1).", gradDoc: "dOut where X > 0, else dOut*alpha*e**X", reads: "X", flops: 5,
		attrs: []ops.Attr{number("alpha", "the limit is -alpha", 1)}, f32: elu[float32], f64: elu[float64]},
	{name: "celu", doc: "Bends negative elements smoothly (Barron 2017): Out = X above 0, else alpha*(e**(X/alpha) - 1).", gradDoc: "dOut where X > 0, else dOut*e**(X/alpha)",
		reads: "X", flops: 6, attrs: []ops.Attr{positive("alpha", "the limit is -alpha", 1)}, f32: celu[float32], f64: celu[float64]},
	{name: "selu", doc: "Keeps mean 0 and variance 1 from layer to layer (Klambauer et al. 2017): Out = scale*X above 0, else scale*alpha*(e**X - 1).",
		gradDoc: "scale*dOut where Out > 0, else dOut*(Out + scale*alpha)", reads: "Out", flops: 5,
		attrs: []ops.Attr{number("scale", "factor of all", 1.0507009873554805), number("alpha", "factor below 0", 1.6732632423543772)},
		f32:   selu[float32], f64: selu[float64]},
	{name: "gelu", doc: "Weighs each element by the normal distribution function P (Hendrycks and Gimpel 2016): Out = X*P(X).",
		gradDoc: "dOut*(P(X) + X*p(X)), p the density of the normal distribution, or the derivative of the approximation", reads: "X", flops: 12,
		attrs: []ops.Attr{{Name: "approximate", Doc: "compute 0.5*X*(1 + tanh(sqrt(2/pi)*(X + 0.044715*X**3))) instead", Default: false}},
		apart: true, gradApart: true, f32: gelu[float32], f64: gelu[float64]},
	{name: "swish", doc: "Weighs each element by its sigmoid: Out = X*sigmoid(beta*X).", gradDoc: "dOut*(s + beta*X*s*(1 - s)) with s = sigmoid(beta*X)", reads: "X",
		flops: 5, attrs: []ops.Attr{number("beta", "factor within the sigmoid", 1)}, apart: true, gradApart: true, f32: swish[float32], f64: swish[float64]},
	{name: "silu", doc: "Weighs each element by its sigmoid: Out = X*sigmoid(X).", gradDoc: "dOut*(s + X*s*(1 - s)) with s = sigmoid(X)", reads: "X",
		flops: 5, apart: true, gradApart: true, f32: silu[float32], f64: silu[float64]},
	{name: "mish", doc: "Weighs each element (Misra 2019): Out = X*tanh(log(1 + e**X)).", gradDoc: "dOut*(t + X*(1 - t*t)*sigmoid(X)) with t = tanh(log(1 + e**X))",
		reads: "X", flops: 12, f32: mish[float32], f64: mish[float64]},
	{name: "softplus", doc: "A smooth relu: Out = log(1 + e**(beta*X))/beta, and X where beta*X > threshold.",
		gradDoc: "dOut*sigmoid(beta*X), and dOut where beta*X > threshold", reads: "X", flops: 8,
		attrs: []ops.Attr{positive("beta", "how sharp the bend is", 1), number("threshold", "where Out = X begins", 20)}, f32: softplus[float32], f64: softplus[float64]},
	{name: "soft_relu", doc: "A smooth relu: Out = log(1 + e**x), x being X limited to [-threshold, threshold].",
		gradDoc: "dOut*(1 - e**-Out), 0 where X was limited", reads: "Out", flops: 8,
		attrs: []ops.Attr{positive("threshold", "the largest magnitude", 40)}, f32: softRelu[float32], f64: softRelu[float64]},
	{name: "logsigmoid", doc: "The logarithm of the sigmoid: Out = -log(1 + e**-X).", gradDoc: "dOut*sigmoid(-X)", reads: "X", flops: 8,
		f32: logSigmoid[float32], f64: logSigmoid[float64]},
	{name: "stanh", doc: "A scaled hyperbolic tangent: Out = scale_b*tanh(scale_a*X).", gradDoc: "dOut*scale_a*scale_b*(1 - tanh(scale_a*X)**2)", reads: "X", flops: 6,
		attrs:     []ops.Attr{number("scale_a", "factor of X", 0.67), number("scale_b", "factor of the result", 1.7159)},
		gradApart: true, f32: stanh[float32], f64: stanh[float64]},
	{name: "tanh_shrink", doc: "Takes the hyperbolic tangent away: Out = X - tanh(X).", gradDoc: "dOut*tanh(X)**2", reads: "X", flops: 5,
		apart: true, gradApart: true, f32: tanhShrink[float32], f64: tanhShrink[float64]},
	{name: "pow", doc: "Raises each element to a power: Out = X**factor.", gradDoc: "dOut*factor*X**(factor - 1)", reads: "X", flops: 10,
		attrs: []ops.Attr{{Name: "factor", Doc: "the exponent", Default: float32(1), Tensor: "FactorTensor"}}, f32: power[float32], f64: power[float64]},
}

func init() {
	for _, c := range curves {
		registerCurve(c)
	}
}

// Each function below reads the attributes of an op and returns its loop and that of its gradient.

func relu6[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	top := T(b.Float("threshold"))
	return func(out, x []T) { kernel.Relu6(out, x, top) }, func(dx, _, out, dout []T) { kernel.Relu6Grad(dx, out, dout, top) }
}

func leakyRelu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	alpha := T(b.Float("alpha"))
	return func(out, x []T) { kernel.LeakyRelu(out, x, alpha) }, func(dx, x, _, dout []T) { kernel.LeakyReluGrad(dx, x, dout, alpha) }
}

func hardSigmoid[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	slope, offset := T(b.Float("slope")), T(b.Float("offset"))
	return func(out, x []T) { kernel.HardSigmoid(out, x, slope, offset) },
		func(dx, _, out, dout []T) { kernel.HardSigmoidGrad(dx, out, dout, slope) }
}

func hardSwish[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	top, scale, offset := T(b.Float("threshold")), T(b.Float("scale")), T(b.Float("offset"))
	return func(out, x []T) { kernel.HardSwish(out, x, top, scale, offset) },
		func(dx, x, _, dout []T) { kernel.HardSwishGrad(dx, x, dout, top, scale, offset) }
}

func hardShrink[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	t := T(b.Float("threshold"))
	return func(out, x []T) { kernel.HardShrink(out, x, t) }, func(dx, x, _, dout []T) { kernel.HardShrinkGrad(dx, x, dout, t) }
}

func softShrink[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	lambda := T(b.Float("lambda"))
	return func(out, x []T) { kernel.SoftShrink(out, x, lambda) }, func(dx, x, _, dout []T) { kernel.HardShrinkGrad(dx, x, dout, lambda) }
}

func thresholdedRelu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	t := T(b.Float("threshold"))
	return func(out, x []T) { kernel.ThresholdedRelu(out, x, t) }, func(dx, x, _, dout []T) { kernel.ThresholdedReluGrad(dx, x, dout, t) }
}

func brelu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	low, high := T(b.Float("t_min")), T(b.Float("t_max"))
	return func(out, x []T) { kernel.Clip(out, x, low, high) }, func(dx, x, _, dout []T) { kernel.ClipGrad(dx, x, dout, low, high) }
}

func elu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	alpha := T(b.Float("alpha"))
	return func(out, x []T) { kernel.Elu(out, x, alpha) }, func(dx, x, _, dout []T) { kernel.EluGrad(dx, x, dout, alpha) }
}

func celu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	alpha := b.Float("alpha")
	return func(out, x []T) {
			kernel.Map(out, x, func(v float64) float64 { return max(v, 0) + alpha*math.Expm1(min(v, 0)/alpha) })
		},
		func(dx, x, _, dout []T) {
			kernel.MapGrad(dx, x, dout, func(v float64) float64 { return math.Exp(min(v, 0) / alpha) })
		}
}

func selu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	scale, alpha := T(b.Float("scale")), T(b.Float("alpha"))
	return func(out, x []T) { kernel.Selu(out, x, scale, alpha) }, func(dx, _, out, dout []T) { kernel.SeluGrad(dx, out, dout, scale, alpha) }
}

func gelu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	if b.Bool("approximate") {
		return kernel.GeluTanh[T], func(dx, x, _, dout []T) { kernel.GeluTanhGrad(dx, x, dout) }
	}
	return kernel.Gelu[T], func(dx, x, _, dout []T) { kernel.GeluGrad(dx, x, dout) }
}

func swish[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	return swishOf(T(b.Float("beta")))
}

func silu[T tensor.Float](*ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	return swishOf(T(1))
}

func swishOf[T tensor.Float](beta T) (func(out, x []T), func(dx, x, out, dout []T)) {
	return func(out, x []T) { kernel.Swish(out, x, beta) }, func(dx, x, _, dout []T) { kernel.SwishGrad(dx, x, dout, beta) }
}

func mish[T tensor.Float](*ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	return kernel.Mish[T], func(dx, x, _, dout []T) { kernel.MishGrad(dx, x, dout) }
}

func softplus[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	beta, t := T(b.Float("beta")), T(b.Float("threshold"))
	return func(out, x []T) { kernel.Softplus(out, x, beta, t) }, func(dx, x, _, dout []T) { kernel.SoftplusGrad(dx, x, dout, beta, t) }
}

func softRelu[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	t := T(b.Float("threshold"))
	return func(out, x []T) { kernel.SoftRelu(out, x, t) }, func(dx, _, out, dout []T) { kernel.SoftReluGrad(dx, out, dout, t) }
}

func logSigmoid[T tensor.Float](*ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	return kernel.LogSigmoid[T], func(dx, x, _, dout []T) { kernel.LogSigmoidGrad(dx, x, dout) }
}

func stanh[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	a, c := T(b.Float("scale_a")), T(b.Float("scale_b"))
	return func(out, x []T) { kernel.Stanh(out, x, a, c) }, func(dx, x, _, dout []T) { kernel.StanhGrad(dx, x, dout, a, c) }
}

func tanhShrink[T tensor.Float](*ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	return kernel.TanhShrink[T], func(dx, x, _, dout []T) { kernel.TanhShrinkGrad(dx, x, dout) }
}

func power[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	factor := T(b.Float("factor"))
	return func(out, x []T) { kernel.PowScalar(out, x, factor) }, func(dx, x, _, dout []T) { kernel.PowScalarGrad(dx, x, dout, factor) }
}
