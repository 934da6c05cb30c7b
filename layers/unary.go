package layers

import "github.com/edl-go/edl/tensor"

// The functions of one variable take the option Name and nothing else unless they say so.

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

// ClipByNorm scales x down to a Euclidean norm of limit when its norm is larger.
func ClipByNorm(x Variable, limit float64, opts ...Option) Variable {
	l := start("clip_by_norm", opts, nil, x)
	return l.result(l.op("clip_by_norm", In{"X": {x}}, Attrs{"max_norm": limit}, "Out"))
}

// SquaredNorm is the sum of squares of all elements, [1], computed so that neither the order of the elements nor a split by rows changes a bit.
func SquaredNorm(x Variable, opts ...Option) Variable { return unary("squared_l2_norm", x, opts) }

// Cast converts the element type.
func Cast(x Variable, to tensor.DType, opts ...Option) Variable {
	l := start("cast", opts, nil, x)
	return l.result(l.op("cast", In{"X": {x}}, Attrs{"in_dtype": x.DType(), "out_dtype": to}, "Out"))
}

// ZerosLike is a variable of x's shape filled with 0.
func ZerosLike(x Variable, opts ...Option) Variable { return unary("fill_zeros_like", x, opts) }

// Assign copies x to a new variable.
func Assign(x Variable, opts ...Option) Variable { return unary("assign", x, opts) }

// AssignTo copies x into a variable that exists, such as a state, and returns that variable.
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
