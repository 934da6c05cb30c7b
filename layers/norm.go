package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// KeepStatistics sets how much of the moving mean and variance of BatchNorm stays from step to step. The default is 0.9.
func KeepStatistics(share float64) Option {
	return Option{"KeepStatistics", func(s *settings) { s.momentum = share }}
}

// BatchNorm gives each channel (axis 1) of a batch mean 0 and variance 1, and then a learned scale and bias. It keeps moving statistics for use
// after training. Parameters: w_0 scale, b_0 bias; w_1 and w_2 are the moving mean and variance, which are saved but not trained.
//
// Options: Act, Param (the scale, default 1), Bias (default 0), Epsilon, KeepStatistics, IsTest, Name. Op: batch_norm.
func BatchNorm(x Variable, opts ...Option) Variable {
	l := start("batch_norm", opts, []string{"Act", "Param", "Bias", "Epsilon", "KeepStatistics", "IsTest"}, x)
	if !l.failed && x.rank() < 2 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("a batch axis and a channel axis")))
	}
	if l.failed {
		return l.fail()
	}
	channels := x.v.Dims[1:2]
	scale := l.parameter("w", l.param, x.DType(), channels, Constant(1))
	bias := l.parameter("b", l.bias, x.DType(), channels, Constant(0))
	mean := l.parameter("w", ParamAttr{Frozen: true}, x.DType(), channels, Constant(0))
	variance := l.parameter("w", ParamAttr{Frozen: true}, x.DType(), channels, Constant(1))
	savedMean, savedVariance, y := l.temporary(), l.temporary(), l.temporary()
	l.write("batch_norm", In{"X": {x}, "Scale": {scale}, "Bias": {bias}, "Mean": {mean}, "Variance": {variance}},
		Attrs{"epsilon": l.epsilon, "momentum": l.momentum, "is_test": l.isTest, "data_layout": "NCHW"},
		In{"Y": {y}, "MeanOut": {mean}, "VarianceOut": {variance}, "SavedMean": {savedMean}, "SavedVariance": {savedVariance}})
	return l.result(l.activate(y))
}

// BeginNormAxis sets the first axis that LayerNorm normalizes over. The default is 1.
func BeginNormAxis(axis int) Option {
	return Option{"BeginNormAxis", func(s *settings) { s.beginNorm = axis }}
}

// LayerNorm gives each record mean 0 and variance 1 over the axes from BeginNormAxis on, and then a learned scale and bias per
// element.
//
// Options: Act, Param (the scale, default 1), Bias (default 0), NoBias, Epsilon, BeginNormAxis, Name. Op: layer_norm.
func LayerNorm(x Variable, opts ...Option) Variable {
	l := start("layer_norm", opts, []string{"Act", "Param", "Bias", "NoBias", "Epsilon", "BeginNormAxis"}, x)
	if l.failed {
		return l.fail()
	}
	if l.beginNorm < 1 || l.beginNorm >= x.rank() {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()),
			fault.Wantf("a rank above BeginNormAxis = %d, which is at least 1", l.beginNorm)))
	}
	size := []int64{ops.Product(x.v.Dims[l.beginNorm:])}
	in := In{"X": {x}, "Scale": {l.parameter("w", l.param, x.DType(), size, Constant(1))}}
	if !l.noBias {
		in["Bias"] = []Variable{l.parameter("b", l.bias, x.DType(), size, Constant(0))}
	}
	out := l.multi("layer_norm", in, Attrs{"epsilon": l.epsilon, "begin_norm_axis": l.beginNorm}, "Mean", "Variance", "Y")
	return l.result(l.activate(out[2]))
}
