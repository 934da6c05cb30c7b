package math

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// special are the functions of each element that Paddle 2 added.
var special = []unary{
	{"trunc", "X without its fraction", "0", "", 1, mapOf[float32](math.Trunc), mapOf[float64](math.Trunc), kernel.ZeroGrad[float32], kernel.ZeroGrad[float64]},
	mapped("lgamma", "the logarithm of |gamma(X)|", "dOut*digamma(X)", "X", 20, func(x float64) float64 { v, _ := math.Lgamma(x); return v }, kernel.Digamma),
	mapped("digamma", "the derivative of the logarithm of gamma(X)", "dOut times the second derivative", "X", 20, kernel.Digamma, kernel.Trigamma),
	mapped("erfinv", "the number whose error function is X, NaN beyond [-1, 1]", "dOut*sqrt(pi)/2*exp(Out*Out)", "Out", 20, math.Erfinv,
		func(y float64) float64 { return math.Sqrt(math.Pi) / 2 * math.Exp(y*y) }),
}

func init() {
	for _, u := range special {
		registerUnary(u)
	}
	registerCurve(curve{name: "logit", doc: "The logarithm of the odds of probabilities: Out = log(x/(1 - x)), x is X limited to [eps, 1 - eps].",
		gradDoc: "dOut/(X*(1 - X)) where X is within [eps, 1 - eps], else 0", reads: "X", flops: 8,
		attrs: []ops.Attr{number("eps", "the least distance to 0 and 1; with 0, what is beyond becomes NaN", 1e-6)}, f32: logit[float32], f64: logit[float64]})
	opkit.Register(elementwise("elementwise_fmax", "max(X, Y), where a number wins over NaN", opkit.BindNumbers("X",
		bindElementwise(kernel.FMax[float32]), bindElementwise(kernel.FMax[float64]), bindElementwise(kernel.FMax[int32]), bindElementwise(kernel.FMax[int64]))),
		elementwiseGradient("dOut goes to dX where X >= Y or Y is NaN, else to dY.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(false, kernel.FMaxGrad[float32], nil), bindElementwiseGrad(false, kernel.FMaxGrad[float64], nil)))
	opkit.Register(elementwise("elementwise_fmin", "min(X, Y), where a number wins over NaN", opkit.BindNumbers("X",
		bindElementwise(kernel.FMin[float32]), bindElementwise(kernel.FMin[float64]), bindElementwise(kernel.FMin[int32]), bindElementwise(kernel.FMin[int64]))),
		elementwiseGradient("dOut goes to dX where X <= Y or Y is NaN, else to dY.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(false, kernel.FMinGrad[float32], nil), bindElementwiseGrad(false, kernel.FMinGrad[float64], nil)))
	opkit.Register(elementwise("elementwise_heaviside", "0 where X < 0, Y where X is 0, and else 1", opkit.BindNumbers("X",
		bindElementwise(kernel.Heaviside[float32]), bindElementwise(kernel.Heaviside[float64]), bindElementwise(kernel.Heaviside[int32]), bindElementwise(kernel.Heaviside[int64]))),
		elementwiseGradient("dX = 0, dY = dOut where X is 0, summed over the axes that Y does not have.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(false, kernel.HeavisideGrad[float32], nil), bindElementwiseGrad(false, kernel.HeavisideGrad[float64], nil)))
	for _, f := range []bessel{
		{"i0", "of order 0", "the function of order 1", kernel.BesselI0, kernel.BesselI1},
		{"i0e", "of order 0 times exp(-|x|)", "exp(-|x|) times the difference of the function of order 1 and, with the sign of x, that of order 0", kernel.BesselI0e,
			func(v float64) float64 { return kernel.BesselI1e(v) - sign(v)*kernel.BesselI0e(v) }},
		{"i1", "of order 1", "the function of order 0 minus out/x, 1/2 at 0", kernel.BesselI1,
			func(v float64) float64 { return kernel.BesselI0(v) - ratio(kernel.BesselI1(v), v) }},
		{"i1e", "of order 1 times exp(-|x|)", "exp(-|x|) times the function of order 0, minus out*(1/x + sign(x)), 1/2 at 0", kernel.BesselI1e,
			func(v float64) float64 {
				return kernel.BesselI0e(v) - sign(v)*kernel.BesselI1e(v) - ratio(kernel.BesselI1e(v), v)
			}},
	} {
		f.register()
	}
}

func logit[T tensor.Float](b *ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)) {
	eps := b.Float("eps")
	return func(out, x []T) {
			kernel.Map(out, x, func(v float64) float64 {
				if eps > 0 {
					v = min(max(v, eps), 1-eps)
				}
				return math.Log(v / (1 - v))
			})
		}, func(dx, x, _, dout []T) {
			kernel.MapGrad(dx, x, dout, func(v float64) float64 {
				if v < eps || v > 1-eps {
					return 0
				}
				return 1 / (v * (1 - v))
			})
		}
}

// A bessel is an op of a Bessel function.
type bessel struct {
	name, doc, gradDoc string
	value, slope       func(float64) float64
}

func (f bessel) register() {
	opkit.Register(ops.Def{
		Type:      f.name,
		Doc:       "Applies the modified Bessel function of the first kind " + f.doc + " to each element.",
		Inputs:    in("x", "float"),
		Outputs:   out("out", "of the shape and type of x"),
		Infer:     func(s *ops.Shapes) error { s.Like("out", "x"); return s.IsFloat("x") },
		Cost:      opkit.PerElement(40),
		Bind:      opkit.BindFloats("x", bindBessel[float32](f.value), bindBessel[float64](f.value)),
		RowSliced: true,
	}, opkit.Gradient{
		Doc: "dx = dout times " + f.gradDoc + ", for each element.", Inputs: []string{"x"}, Wrt: []string{"x"}, Cost: opkit.PerElement(40),
		Bind: opkit.BindFloats("x", bindBesselGrad[float32](f.slope), bindBesselGrad[float64](f.slope)),
	})
}

// sign is 1 above 0, -1 below, else 0.
func sign(v float64) float64 {
	if v == 0 {
		return 0
	}
	return math.Copysign(1, v)
}

// ratio is value/v, and of 0 the limit for a function whose slope there is 1/2.
func ratio(value, v float64) float64 {
	if v == 0 {
		return 0.5
	}
	return value / v
}

func bindBessel[T tensor.Float](value func(float64) float64) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("x"), b.Out("out")
		return opkit.Loop(b, x.Len(), func(from, till int) {
			kernel.Map(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till], value)
		})
	}
}

func bindBesselGrad[T tensor.Float](slope func(float64) float64) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, dout, dx := b.In("x"), b.In("out@GRAD"), b.Out("x@GRAD")
		return opkit.Loop(b, x.Len(), func(from, till int) {
			kernel.MapGrad(tensor.Data[T](dx)[from:till], tensor.Data[T](x)[from:till], tensor.Data[T](dout)[from:till], slope)
		})
	}
}
