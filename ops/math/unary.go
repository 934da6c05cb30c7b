package math

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// in and out describe a slot of one tensor.
func in(name, doc string) []ops.Slot  { return []ops.Slot{{Name: name, Doc: doc}} }
func out(name, doc string) []ops.Slot { return []ops.Slot{{Name: name, Doc: doc}} }

// stored lets slots take tables of bfloat16, too.
func stored(slots []ops.Slot) []ops.Slot {
	for i := range slots {
		slots[i].Stored = true
	}
	return slots
}

// rowsIn and rowsOut are slots that also take sparse gradients.
func rowsIn(name, doc string) []ops.Slot  { return []ops.Slot{{Name: name, Doc: doc, Rows: true}} }
func rowsOut(name, doc string) []ops.Slot { return []ops.Slot{{Name: name, Doc: doc, Rows: true}} }

// A unary is a function of each element, with its derivative.
type unary struct {
	name    string
	doc     string
	gradDoc string
	reads   string // what the gradient reads in addition to dOut: "X", "Out" or nothing
	flops   int64

	f32     func(out, x []float32)
	f64     func(out, x []float64)
	gradF32 func(dx, x, out, dout []float32)
	gradF64 func(dx, x, out, dout []float64)
}

// mapped makes the unary of a function that is evaluated in float64. slope is its derivative, of what the gradient reads.
func mapped(name, doc, gradDoc, reads string, flops int64, f, slope func(float64) float64) unary {
	return unary{name, doc, gradDoc, reads, flops, mapOf[float32](f), mapOf[float64](f), slopeOf[float32](reads, slope), slopeOf[float64](reads, slope)}
}

func mapOf[T tensor.Float](f func(float64) float64) func(out, x []T) {
	return func(out, x []T) { kernel.Map(out, x, f) }
}

func slopeOf[T tensor.Float](reads string, slope func(float64) float64) func(dx, x, out, dout []T) {
	if reads == "Out" {
		return func(dx, _, out, dout []T) { kernel.MapGrad(dx, out, dout, slope) }
	}
	return func(dx, x, _, dout []T) { kernel.MapGrad(dx, x, dout, slope) }
}

var unaries = []unary{
	{"relu", "max(X, 0)", "dOut where Out > 0, else 0", "Out", 1,
		kernel.Relu[float32], kernel.Relu[float64], kernel.ReluGrad[float32], kernel.ReluGrad[float64]},
	{"sigmoid", "1/(1 + exp(-X))", "dOut*Out*(1 - Out)", "Out", 4,
		kernel.Sigmoid[float32], kernel.Sigmoid[float64], kernel.SigmoidGrad[float32], kernel.SigmoidGrad[float64]},
	{"tanh", "the hyperbolic tangent of X", "dOut*(1 - Out*Out)", "Out", 4,
		kernel.Tanh[float32], kernel.Tanh[float64], kernel.TanhGrad[float32], kernel.TanhGrad[float64]},
	{"softsign", "X/(1 + |X|)", "dOut/(1 + |X|)**2", "X", 3,
		kernel.Softsign[float32], kernel.Softsign[float64], kernel.SoftsignGrad[float32], kernel.SoftsignGrad[float64]},
	{"square", "X*X", "2*dOut*X", "X", 1,
		kernel.Square[float32], kernel.Square[float64], kernel.SquareGrad[float32], kernel.SquareGrad[float64]},
	{"sqrt", "the square root of X, NaN below 0", "dOut/(2*Out)", "Out", 1,
		kernel.Sqrt[float32], kernel.Sqrt[float64], kernel.SqrtGrad[float32], kernel.SqrtGrad[float64]},
	{"exp", "e**X", "dOut*Out", "Out", 4,
		kernel.Exp[float32], kernel.Exp[float64], kernel.ExpGrad[float32], kernel.ExpGrad[float64]},
	{"log", "the natural logarithm of X", "dOut/X", "X", 4,
		kernel.Log[float32], kernel.Log[float64], kernel.LogGrad[float32], kernel.LogGrad[float64]},
	{"abs", "|X|", "dOut*sign(X)", "X", 1,
		kernel.Abs[float32], kernel.Abs[float64], kernel.AbsGrad[float32], kernel.AbsGrad[float64]},
	{"sign", "1 above 0, -1 below, else 0", "0", "", 1,
		kernel.Sign[float32], kernel.Sign[float64], kernel.ZeroGrad[float32], kernel.ZeroGrad[float64]},
	{"floor", "the greatest integer not above X", "0", "", 1,
		kernel.Floor[float32], kernel.Floor[float64], kernel.ZeroGrad[float32], kernel.ZeroGrad[float64]},
	{"ceil", "the least integer not below X", "0", "", 1,
		kernel.Ceil[float32], kernel.Ceil[float64], kernel.ZeroGrad[float32], kernel.ZeroGrad[float64]},
	{"cos", "the cosine of X in radians", "-dOut*sin(X)", "X", 4,
		kernel.Cos[float32], kernel.Cos[float64], kernel.CosGrad[float32], kernel.CosGrad[float64]},
	{"reciprocal", "1/X", "-dOut*Out*Out", "Out", 1,
		kernel.Reciprocal[float32], kernel.Reciprocal[float64], kernel.ReciprocalGrad[float32], kernel.ReciprocalGrad[float64]},
	{"round", "the nearest integer to X, away from 0 for a half", "0", "", 1,
		mapOf[float32](math.Round), mapOf[float64](math.Round), kernel.ZeroGrad[float32], kernel.ZeroGrad[float64]},
	mapped("rsqrt", "1 over the square root of X, NaN below 0", "-dOut*Out**3/2", "Out", 2,
		func(x float64) float64 { return 1 / math.Sqrt(x) }, func(y float64) float64 { return -0.5 * y * y * y }),
	mapped("sin", "the sine of X in radians", "dOut*cos(X)", "X", 4, math.Sin, math.Cos),
	mapped("tan", "the tangent of X in radians", "dOut/cos(X)**2", "X", 4, math.Tan,
		func(x float64) float64 { c := math.Cos(x); return 1 / (c * c) }),
	mapped("asin", "the angle in radians whose sine is X, NaN beyond [-1, 1]", "dOut/sqrt(1 - X*X)", "X", 4, math.Asin,
		func(x float64) float64 { return 1 / math.Sqrt(1-x*x) }),
	mapped("acos", "the angle in radians whose cosine is X, NaN beyond [-1, 1]", "-dOut/sqrt(1 - X*X)", "X", 4, math.Acos,
		func(x float64) float64 { return -1 / math.Sqrt(1-x*x) }),
	mapped("atan", "the angle in radians whose tangent is X", "dOut/(1 + X*X)", "X", 4, math.Atan,
		func(x float64) float64 { return 1 / (1 + x*x) }),
	mapped("sinh", "the hyperbolic sine of X", "dOut*cosh(X)", "X", 4, math.Sinh, math.Cosh),
	mapped("cosh", "the hyperbolic cosine of X", "dOut*sinh(X)", "X", 4, math.Cosh, math.Sinh),
	mapped("asinh", "the number whose hyperbolic sine is X", "dOut/sqrt(1 + X*X)", "X", 4, math.Asinh, func(x float64) float64 { return 1 / math.Sqrt(1+x*x) }),
	mapped("acosh", "the number from 0 whose hyperbolic cosine is X, NaN below 1", "dOut/sqrt(X*X - 1)", "X", 4, math.Acosh,
		func(x float64) float64 { return 1 / math.Sqrt(x*x-1) }),
	mapped("atanh", "the number whose hyperbolic tangent is X, NaN beyond [-1, 1]", "dOut/(1 - X*X)", "X", 4, math.Atanh, func(x float64) float64 { return 1 / (1 - x*x) }),
	mapped("erf", "the error function of X", "dOut*2/sqrt(pi)*exp(-X*X)", "X", 8, math.Erf,
		func(x float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }),
	mapped("expm1", "e**X - 1, precise near 0", "dOut*(Out + 1)", "Out", 4, math.Expm1, func(y float64) float64 { return y + 1 }),
	mapped("log1p", "the natural logarithm of 1 + X, precise near 0", "dOut/(1 + X)", "X", 4, math.Log1p,
		func(x float64) float64 { return 1 / (1 + x) }),
	mapped("log2", "the logarithm of X to the base 2", "dOut/(X*ln(2))", "X", 4, math.Log2, func(x float64) float64 { return 1 / (x * math.Ln2) }),
	mapped("log10", "the logarithm of X to the base 10", "dOut/(X*ln(10))", "X", 4, math.Log10, func(x float64) float64 { return 1 / (x * math.Ln10) }),
}

func init() {
	for _, u := range unaries {
		registerUnary(u)
	}
}

// registerUnary registers a unary, which is a curve without attributes.
func registerUnary(u unary) {
	registerCurve(curve{name: u.name, doc: "Applies a function to each element: Out = " + u.doc + ".", gradDoc: u.gradDoc, reads: u.reads, flops: u.flops,
		f32: func(*ops.Binding) (func(out, x []float32), func(dx, x, out, dout []float32)) { return u.f32, u.gradF32 },
		f64: func(*ops.Binding) (func(out, x []float64), func(dx, x, out, dout []float64)) { return u.f64, u.gradF64 }})
}

// A curve is a function of each element that attributes shape, with its derivative.
type curve struct {
	name    string
	doc     string // of the op
	gradDoc string
	reads   string // what the gradient reads in addition to dOut: "X", "Out" or nothing
	flops   int64
	attrs   []ops.Attr

	// apart says that the function may not write where X is, and gradApart that the gradient may not write where dOut is.
	apart, gradApart bool

	f32 func(*ops.Binding) (func(out, x []float32), func(dx, x, out, dout []float32))
	f64 func(*ops.Binding) (func(out, x []float64), func(dx, x, out, dout []float64))
}

func registerCurve(u curve) {
	g := opkit.Gradient{
		Doc:     "dX = " + u.gradDoc + ", for each element.",
		Wrt:     []string{"X"},
		StandIn: map[string]string{},
		Cost:    opkit.PerElement(u.flops + 1),
		Bind:    opkit.BindFloats("Out@GRAD", bindCurveGrad(u.f32), bindCurveGrad(u.f64)),
	}
	if !u.gradApart {
		g.InPlace = map[string]string{"X@GRAD": "Out@GRAD"}
	}
	switch u.reads {
	case "X":
		g.Inputs = []string{"X"}
	case "Out":
		g.Outputs = []string{"Out"}
		g.StandIn["X"] = "Out"
	default:
		g.StandIn["X"] = "Out@GRAD"
	}
	inputs := in("X", "float")
	for _, a := range u.attrs {
		if a.Tensor != "" {
			inputs = append(inputs, tensorOf(a.Tensor, a.Name))
		}
	}
	f := ops.Def{
		Type:    u.name,
		Doc:     u.doc,
		Inputs:  inputs,
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   u.attrs,
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			return opkit.FloatSoFar(s, "X")
		},
		Cost:      opkit.PerElement(u.flops),
		Bind:      opkit.BindFloats("X", bindCurve(u.f32, !u.apart), bindCurve(u.f64, !u.apart)),
		RowSliced: true,
	}
	if !u.apart {
		f.InPlace = map[string]string{"Out": "X"}
	}
	if whole := wholeCurves[u.name]; whole != nil {
		f = alsoWhole(f, bindEach(eachWhole[int32](whole)), bindEach(eachWhole[int64](whole)))
	} else if u.name == "pow" {
		f = wholePowers(f)
	}
	opkit.Register(f, g)
}

func bindCurve[T tensor.Float](of func(*ops.Binding) (func(out, x []T), func(dx, x, out, dout []T)), inPlace bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("X"), b.Out("Out")
		f, _ := of(b)
		var epilogue *ops.Epilogue
		if inPlace {
			epilogue = &ops.Epilogue{Of: "X", Out: to, Function: f}
		}
		return b.Loops(ops.Loop{N: x.Len(), Reads: []string{"X"}, Epilogue: epilogue, Run: func(_, from, till int) error {
			f(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till])
			return nil
		}})
	}
}

func bindCurveGrad[T tensor.Float](of func(*ops.Binding) (func(out, x []T), func(dx, x, out, dout []T))) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, dout, dx := b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
		_, f := of(b)
		n := dout.Len()
		return b.Loops(ops.Loop{N: n, Reads: []string{"X", "Out", "Out@GRAD"}, Run: func(_, from, to int) error {
			f(tensor.Data[T](dx)[from:to], opkit.Owned[T](x, from, to, n), opkit.Owned[T](y, from, to, n), tensor.Data[T](dout)[from:to])
			return nil
		}})
	}
}

func init() {
	ops.Register(ops.Def{
		Type:    "scale",
		Doc:     "Multiplies by a number and adds one: Out = scale*X + bias, or scale*(X + bias) with bias_after_scale false.",
		Inputs:  append(in("X", "numbers"), ops.Slot{Name: "ScaleTensor", Doc: "one number, in place of scale", Dispensable: true}),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{
			{Name: "scale", Doc: "factor", Default: float32(1)},
			{Name: "bias", Doc: "what is added", Default: float32(0)},
			{Name: "bias_after_scale", Doc: "whether bias is added after the multiplication", Default: true}},
		Infer: func(s *ops.Shapes) error {
			if n := ops.Product(s.In("ScaleTensor").Dims); s.Has("ScaleTensor") && !opkit.Agree(n, 1) {
				return s.Errorf("ScaleTensor", "one number")
			}
			if err := opkit.CheckType(s, "ScaleTensor", !s.Has("ScaleTensor") || s.In("ScaleTensor").DType != tensor.Bool, "a number"); err != nil {
				return err
			}
			return inferNumbersLike(s)
		},
		Gradient:  scaleGradient,
		MixesRows: opkit.RowsOnlyIn("X"),
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindNumbers("X", bindScale[float32], bindScale[float64], bindScale[int32], bindScale[int64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

// inferNumbersLike gives Out the type of X, which must hold numbers.
func inferNumbersLike(s *ops.Shapes) error {
	s.Like("Out", "X")
	return opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers")
}

// scaleGradient is a scale op without the bias: dX = scale*dOut.
func scaleGradient(g *ops.Grad) ([]*program.Op, error) {
	op := scaleOf(g, g.OutGrad("Out"), g.InGrad("X"), 1)
	if factor, set := g.Op().Attrs["scale"]; set {
		op.SetAttr("scale", factor)
	}
	if given := g.In("ScaleTensor"); len(given) > 0 {
		op.Inputs["ScaleTensor"] = given
	}
	return []*program.Op{op}, nil
}

// scaleOf makes the op to = factor*from.
func scaleOf(g *ops.Grad, from, to []string, factor float32) *program.Op {
	op := g.GradOp("scale")
	op.Inputs["X"], op.Outputs["Out"] = from, to
	op.SetAttr("scale", factor)
	op.SetAttr("bias", float32(0))
	op.SetAttr("bias_after_scale", true)
	return op
}

func bindScale[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	scale, bias, after := T(b.Float("scale")), T(b.Float("bias")), b.Bool("bias_after_scale")
	given := b.In("ScaleTensor")
	return b.Loops(ops.Loop{N: x.Len(), Whole: []string{"ScaleTensor"}, Run: func(_, from, till int) error {
		factor := scale
		if given != nil {
			factor = firstNumber[T](given)
		}
		kernel.Scale(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till], factor, bias, after)
		return nil
	}})
}

// firstNumber returns the first element of a tensor of numbers.
func firstNumber[T kernel.Number](t *tensor.Tensor) T {
	switch t.DType() {
	case tensor.Int32:
		return T(t.Int32s()[0])
	case tensor.Int64:
		return T(t.Int64s()[0])
	case tensor.Float32:
		return T(t.Float32s()[0])
	}
	return T(t.Float64s()[0])
}
