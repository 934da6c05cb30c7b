package layers

import (
	"github.com/edl-go/edl/fault"
)

// Activations take only the option Name unless their docs say otherwise. Option Act of other layers takes each by the type of its op, with the default
// attributes of Fluid.

// Relu6 is x limited to [0, 6].
func Relu6(x Variable, opts ...Option) Variable { return unary("relu6", x, opts) }

// LeakyRelu is x above 0, else alpha * x. Fluid's default for alpha is 0.02.
func LeakyRelu(x Variable, alpha float64, opts ...Option) Variable {
	return curve("leaky_relu", x, Attrs{"alpha": alpha}, opts)
}

// Prelu is x above 0, else a * x with a trained slope a. mode says what has a slope of its own: "all" elements together, each "channel" (axis 1), or
// each "element" of a record.
//
// Options: Param (default 0.25), Name. Op: prelu.
func Prelu(x Variable, mode string, opts ...Option) Variable {
	l := start("prelu", opts, []string{"Param"}, x)
	if l.failed {
		return l.fail()
	}
	dims := []int64{1}
	switch {
	case mode == "channel" && x.rank() > 1:
		dims = []int64{1, x.v.Dims[1]}
	case mode == "element" && x.rank() > 0:
		dims = append(dims, x.v.Dims[1:]...)
	case mode != "all":
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("mode %q for %v", mode, x),
			fault.Want("all, element, or with a channel axis channel")))
	}
	alpha := l.parameter("w", l.param, x.DType(), dims, Constant(0.25))
	return l.result(l.op("prelu", In{"X": {x}, "Alpha": {alpha}}, Attrs{"mode": mode}, "Out"))
}

// Elu is x above 0, else alpha * (e to the power of x - 1).
func Elu(x Variable, alpha float64, opts ...Option) Variable {
	return curve("elu", x, Attrs{"alpha": alpha}, opts)
}

// Celu is x above 0, else alpha * (e to the power of x/alpha - 1), which has no bend at 0. Paddle's default for alpha is 1.
func Celu(x Variable, alpha float64, opts ...Option) Variable {
	return curve("celu", x, Attrs{"alpha": alpha}, opts)
}

// Selu is the scaled exponential linear unit, which keeps mean 0 and variance 1 from layer to layer (Klambauer et al. 2017).
func Selu(x Variable, opts ...Option) Variable { return unary("selu", x, opts) }

// Gelu is x * P(x), P being the normal distribution function (Hendrycks and Gimpel 2016).
func Gelu(x Variable, opts ...Option) Variable { return unary("gelu", x, opts) }

// GeluTanh is Gelu with tanh in place of the error function, as GPT and BERT compute it. It differs from Gelu by less than 0.001, and is faster. Op: gelu.
func GeluTanh(x Variable, opts ...Option) Variable {
	return curve("gelu", x, Attrs{"approximate": true}, opts)
}

// Swish is x * sigmoid(beta * x). With beta = 1 it is also called SiLU.
func Swish(x Variable, beta float64, opts ...Option) Variable {
	return curve("swish", x, Attrs{"beta": beta}, opts)
}

// Mish is x * tanh(log(1 + e to the power of x)) (Misra 2019).
func Mish(x Variable, opts ...Option) Variable { return unary("mish", x, opts) }

// HardSwish is x * min(max(x + 3, 0), 6) / 6.
func HardSwish(x Variable, opts ...Option) Variable { return unary("hard_swish", x, opts) }

// HardSigmoid is slope * x + offset limited to [0, 1]. Fluid's defaults are 0.2 and 0.5.
func HardSigmoid(x Variable, slope, offset float64, opts ...Option) Variable {
	return curve("hard_sigmoid", x, Attrs{"slope": slope, "offset": offset}, opts)
}

// HardShrink is x, and 0 where the magnitude of x is at most threshold. Fluid's default is 0.5.
func HardShrink(x Variable, threshold float64, opts ...Option) Variable {
	return curve("hard_shrink", x, Attrs{"threshold": threshold}, opts)
}

// SoftShrink is x moved towards 0 by lambda, and 0 where its magnitude is at most lambda. Fluid's default is 0.5. Op: softshrink.
func SoftShrink(x Variable, lambda float64, opts ...Option) Variable {
	return curve("softshrink", x, Attrs{"lambda": lambda}, opts)
}

// ThresholdedRelu is x above threshold, else 0. Fluid's default is 1.
func ThresholdedRelu(x Variable, threshold float64, opts ...Option) Variable {
	return curve("thresholded_relu", x, Attrs{"threshold": threshold}, opts)
}

// BRelu is x limited to [low, high]. Fluid's defaults are 0 and 24.
func BRelu(x Variable, low, high float64, opts ...Option) Variable {
	return curve("brelu", x, Attrs{"t_min": low, "t_max": high}, opts)
}

// Softplus is log(1 + e to the power of x), and x above 20.
func Softplus(x Variable, opts ...Option) Variable { return unary("softplus", x, opts) }

// SoftRelu is log(1 + e to the power of y), y being x limited to a magnitude of threshold. Fluid's default is 40.
func SoftRelu(x Variable, threshold float64, opts ...Option) Variable {
	return curve("soft_relu", x, Attrs{"threshold": threshold}, opts)
}

// LogSigmoid is the logarithm of the sigmoid.
func LogSigmoid(x Variable, opts ...Option) Variable { return unary("logsigmoid", x, opts) }

// Stanh is b * tanh(a * x). Fluid's defaults are 0.67 and 1.7159.
func Stanh(x Variable, a, b float64, opts ...Option) Variable {
	return curve("stanh", x, Attrs{"scale_a": a, "scale_b": b}, opts)
}

// TanhShrink is x - tanh(x).
func TanhShrink(x Variable, opts ...Option) Variable { return unary("tanh_shrink", x, opts) }

// Power is x to the power of a number. Pow takes the exponents from a variable. Op: pow.
func Power(x Variable, exponent float64, opts ...Option) Variable {
	return curve("pow", x, Attrs{"factor": exponent}, opts)
}

// curve appends an activation with attributes.
func curve(opType string, x Variable, attrs Attrs, opts []Option) Variable {
	l := start(opType, opts, nil, x)
	return l.result(l.op(opType, In{"X": {x}}, attrs, "Out"))
}

// Maxout takes the largest of every groups neighbouring channels of an axis, 1 unless Axis says otherwise (Goodfellow et al. 2013).
//
// Options: Axis, Name.
func Maxout(x Variable, groups int64, opts ...Option) Variable {
	l := start("maxout", append([]Option{Axis(1)}, opts...), []string{"Axis"}, x)
	return l.result(l.op("maxout", In{"X": {x}}, Attrs{"groups": groups, "axis": l.axis}, "Out"))
}

// LogSoftmax is the logarithm of the softmax, computed without rounding the probabilities first.
//
// Options: Axis (default -1), Name.
func LogSoftmax(x Variable, opts ...Option) Variable {
	l := start("log_softmax", opts, []string{"Axis"}, x)
	return l.result(l.op("log_softmax", In{"X": {x}}, Attrs{"axis": l.axis}, "Out"))
}
