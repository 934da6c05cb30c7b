package layers

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Functions of one variable take only the option Name unless their docs say otherwise.

// Relu is max(x, 0).
func Relu(x Variable, opts ...Option) Variable { return unary("relu", x, opts) }

// Sigmoid is 1 / (1 + exp(-x)).
func Sigmoid(x Variable, opts ...Option) Variable { return unary("sigmoid", x, opts) }

// Tanh is the hyperbolic tangent.
func Tanh(x Variable, opts ...Option) Variable { return unary("tanh", x, opts) }

// Softsign is x / (1 + |x|).
func Softsign(x Variable, opts ...Option) Variable { return unary("softsign", x, opts) }

// Exp is e to the power of x.
func Exp(x Variable, opts ...Option) Variable { return unary("exp", x, opts) }

// Log is the natural logarithm.
func Log(x Variable, opts ...Option) Variable { return unary("log", x, opts) }

// Sqrt is the square root.
func Sqrt(x Variable, opts ...Option) Variable { return unary("sqrt", x, opts) }

// Square is x * x.
func Square(x Variable, opts ...Option) Variable { return unary("square", x, opts) }

// Abs is the magnitude.
func Abs(x Variable, opts ...Option) Variable { return unary("abs", x, opts) }

// Sign is -1, 0 or 1.
func Sign(x Variable, opts ...Option) Variable { return unary("sign", x, opts) }

// Cos is the cosine of an angle in radians.
func Cos(x Variable, opts ...Option) Variable { return unary("cos", x, opts) }

// Floor is the next integer below or equal to x. Its gradient is 0.
func Floor(x Variable, opts ...Option) Variable { return unary("floor", x, opts) }

// Ceil is the next integer above or equal to x. Its gradient is 0.
func Ceil(x Variable, opts ...Option) Variable { return unary("ceil", x, opts) }

// Sin is the sine of an angle in radians.
func Sin(x Variable, opts ...Option) Variable { return unary("sin", x, opts) }

// Tan is the tangent of an angle in radians.
func Tan(x Variable, opts ...Option) Variable { return unary("tan", x, opts) }

// Asin is the angle in radians whose sine is x, NaN beyond [-1, 1].
func Asin(x Variable, opts ...Option) Variable { return unary("asin", x, opts) }

// Acos is the angle in radians whose cosine is x, NaN beyond [-1, 1].
func Acos(x Variable, opts ...Option) Variable { return unary("acos", x, opts) }

// Atan is the angle in radians whose tangent is x.
func Atan(x Variable, opts ...Option) Variable { return unary("atan", x, opts) }

// Sinh is the hyperbolic sine.
func Sinh(x Variable, opts ...Option) Variable { return unary("sinh", x, opts) }

// Cosh is the hyperbolic cosine.
func Cosh(x Variable, opts ...Option) Variable { return unary("cosh", x, opts) }

// Asinh is the number whose hyperbolic sine is x.
func Asinh(x Variable, opts ...Option) Variable { return unary("asinh", x, opts) }

// Acosh is the number from 0 whose hyperbolic cosine is x, NaN below 1.
func Acosh(x Variable, opts ...Option) Variable { return unary("acosh", x, opts) }

// Atanh is the number whose hyperbolic tangent is x, NaN beyond [-1, 1].
func Atanh(x Variable, opts ...Option) Variable { return unary("atanh", x, opts) }

// Erf is the error function.
func Erf(x Variable, opts ...Option) Variable { return unary("erf", x, opts) }

// Expm1 is e to the power of x, minus 1. It is precise near 0.
func Expm1(x Variable, opts ...Option) Variable { return unary("expm1", x, opts) }

// Log1p is the natural logarithm of 1 + x. It is precise near 0.
func Log1p(x Variable, opts ...Option) Variable { return unary("log1p", x, opts) }

// Log2 is the logarithm to the base 2.
func Log2(x Variable, opts ...Option) Variable { return unary("log2", x, opts) }

// Log10 is the logarithm to the base 10.
func Log10(x Variable, opts ...Option) Variable { return unary("log10", x, opts) }

// Rsqrt is 1 over the square root of x.
func Rsqrt(x Variable, opts ...Option) Variable { return unary("rsqrt", x, opts) }

// Round is the nearest integer to x, away from 0 for a half. Its gradient is 0.
func Round(x Variable, opts ...Option) Variable { return unary("round", x, opts) }

// Reciprocal is 1 / x.
func Reciprocal(x Variable, opts ...Option) Variable { return unary("reciprocal", x, opts) }

func unary(opType string, x Variable, opts []Option) Variable {
	l := start(opType, opts, nil, x)
	return l.result(l.op(opType, In{"X": {x}}, nil, "Out"))
}

// Scale is x * scale + bias.
func Scale(x Variable, scale, bias float64, opts ...Option) Variable {
	l := start("scale", opts, []string{"Act"}, x)
	return l.result(l.activate(l.op("scale", In{"X": {x}}, Attrs{"scale": scale, "bias": bias, "bias_after_scale": true}, "Out")))
}

// Clip limits x to [low, high].
func Clip(x Variable, low, high float64, opts ...Option) Variable {
	l := start("clip", opts, nil, x)
	return l.result(l.op("clip", In{"X": {x}}, Attrs{"min": low, "max": high}, "Out"))
}

// ClipByNorm scales x down to a Euclidean norm of limit if its norm is larger.
func ClipByNorm(x Variable, limit float64, opts ...Option) Variable {
	l := start("clip_by_norm", opts, nil, x)
	return l.result(l.op("clip_by_norm", In{"X": {x}}, Attrs{"max_norm": limit}, "Out"))
}

// SquaredNorm is the sum of squares of all elements, [1]. Neither the order of the elements nor a split by rows changes a bit of it.
func SquaredNorm(x Variable, opts ...Option) Variable { return unary("squared_l2_norm", x, opts) }

// Cast converts the element type.
func Cast(x Variable, to tensor.DType, opts ...Option) Variable {
	l := start("cast", opts, nil, x)
	return l.result(l.op("cast", In{"X": {x}}, Attrs{"in_dtype": x.DType(), "out_dtype": to}, "Out"))
}

// ZerosLike is a variable with the shape of x, filled with 0.
func ZerosLike(x Variable, opts ...Option) Variable { return unary("fill_zeros_like", x, opts) }

// Assign copies x to a new variable.
func Assign(x Variable, opts ...Option) Variable { return unary("assign", x, opts) }

// AssignTo copies x into an existing variable, such as a state, and returns that variable.
func AssignTo(to, x Variable) Variable {
	l := start("assign", nil, nil, x, to)
	l.write("assign", In{"X": {x}}, nil, In{"Out": {to}})
	if l.failed {
		return l.fail()
	}
	return to
}

// Increment adds step to x, which has one element, in place.
func Increment(x Variable, step float64) Variable {
	l := start("increment", nil, nil, x)
	l.write("increment", In{"X": {x}}, Attrs{"step": step}, In{"Out": {x}})
	if l.failed {
		return l.fail()
	}
	return x
}

// FillConstant is a variable of the given dims filled with one value.
//
// Options: DType, Name.
func FillConstant(m *Model, value float64, dims []int64, opts ...Option) Variable {
	l := begin(m, "fill_constant", opts, "DType")
	return l.result(l.op("fill_constant", nil, Attrs{"shape": dims, "dtype": l.dtype, "value": value}, "Out"))
}

// AssignValue is a variable with the elements of value, which are part of the program: bool, int32, int64 or float32. (Fluid: assign of an array.)
//
// Options: Name. Op: assign_value.
func AssignValue(m *Model, value *tensor.Tensor, opts ...Option) Variable {
	l := begin(m, "assign_value", opts)
	attrs := Attrs{"shape": value.Dims(), "dtype": value.DType()}
	switch value.DType() {
	case tensor.Bool:
		bits := make([]int32, value.Len())
		for i, v := range value.Bools() {
			if v {
				bits[i] = 1
			}
		}
		attrs["bool_values"] = bits
	case tensor.Int32:
		attrs["int32_values"] = slices.Clone(value.Int32s())
	case tensor.Int64:
		attrs["int64_values"] = slices.Clone(value.Int64s())
	case tensor.Float32:
		attrs["fp32_values"] = slices.Clone(value.Float32s())
	default:
		l.mistake(fault.E(fault.Unsupported, fault.Gotf("elements of %v", value.DType()), fault.Want("bool, int32, int64 or float32")))
	}
	return l.result(l.op("assign_value", nil, attrs, "Out"))
}

// The elementwise layers combine two variables element by element. If the dims differ, y is broadcast over x: the axes of y match
// the axes of x that start at Axis (default: the last ones), and y repeats along every other axis. Extents of 1 of both repeat, too.

// Add is x + y.
//
// Options: Axis, Act, Name.
func Add(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_add", x, y, opts) }

// Sub is x - y. Options as Add.
func Sub(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_sub", x, y, opts) }

// Mul is x * y, element by element. Options as Add.
func Mul(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_mul", x, y, opts) }

// Div is x / y. Options as Add.
func Div(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_div", x, y, opts) }

// Max is the larger of x and y. Options as Add.
func Max(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_max", x, y, opts) }

// Heaviside is 0 where x is negative, y where x is 0, and else 1. Options as Add.
func Heaviside(x, y Variable, opts ...Option) Variable {
	return elementwise("elementwise_heaviside", x, y, opts)
}

// Min is the smaller of x and y. Options as Add.
func Min(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_min", x, y, opts) }

// Pow is x to the power of y. Options as Add.
func Pow(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_pow", x, y, opts) }

func elementwise(opType string, x, y Variable, opts []Option) Variable {
	l := start(opType, opts, []string{"Axis", "Act"}, x, y)
	return l.result(l.activate(l.op(opType, In{"X": {x}, "Y": {y}}, Attrs{"axis": l.axis}, "Out")))
}

// Mod is the remainder of x / y, with the sign of y. Options as Add. No gradient flows through it.
func Mod(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_mod", x, y, opts) }

// FloorDiv is x / y towards zero, as in Fluid. Options as Add. No gradient flows through it.
func FloorDiv(x, y Variable, opts ...Option) Variable {
	return elementwise("elementwise_floordiv", x, y, opts)
}

// Sums adds variables of one shape.
func Sums(xs []Variable, opts ...Option) Variable {
	l := start("sum", opts, nil, xs...)
	return l.result(l.op("sum", In{"X": xs}, nil, "Out"))
}

// Axes sets the axes that a reduction removes. Negative axes count from the end. The default is all axes, with the result [1].
func Axes(axes ...int) Option {
	return Option{"Axes", func(s *settings) { s.axes = slices.Clone(axes) }}
}

// KeepDims leaves reduced axes in the result with extent 1.
func KeepDims() Option { return Option{"KeepDims", func(s *settings) { s.keepDims = true }} }

// ReduceSum adds the elements of x along axes.
//
// Options: Axes, KeepDims, Name.
func ReduceSum(x Variable, opts ...Option) Variable { return reduce("reduce_sum", x, opts) }

// ReduceMean averages the elements of x along axes. Options as ReduceSum.
func ReduceMean(x Variable, opts ...Option) Variable { return reduce("reduce_mean", x, opts) }

// ReduceMax takes the largest element of x along axes. Options as ReduceSum.
func ReduceMax(x Variable, opts ...Option) Variable { return reduce("reduce_max", x, opts) }

func reduce(opType string, x Variable, opts []Option) Variable {
	l := start(opType, opts, []string{"Axes", "KeepDims"}, x)
	attrs := Attrs{"reduce_all": len(l.axes) == 0, "keep_dim": l.keepDims}
	if len(l.axes) > 0 {
		attrs["dim"] = l.axes
	}
	return l.result(l.op(opType, In{"X": {x}}, attrs, "Out"))
}

// CosSim is the cosine of the angle between each row of x and that of y, [rows, 1]. y may have one row for all. Options: Name. Op: cos_sim.
func CosSim(x, y Variable, opts ...Option) Variable {
	l := start("cos_sim", opts, nil, x, y)
	return l.result(l.multi("cos_sim", In{"X": {x}, "Y": {y}}, nil, "Out", "XNorm", "YNorm")[0])
}
