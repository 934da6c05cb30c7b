package layers

import "github.com/edl-go/edl/fault"

// GroupNorm divides the channels of each record [batch, channels, ...] into groups, gives each group mean 0 and variance 1, and then applies a learned scale and
// bias to each channel. Unlike BatchNorm it does not depend on other records.
//
// Options: Act, Param (the scale, default 1), Bias (default 0), NoBias, Epsilon, ChannelsLast, Name. Op: group_norm.
func GroupNorm(x Variable, groups int, opts ...Option) Variable {
	l := start("group_norm", opts, []string{"Act", "Param", "Bias", "NoBias", "Epsilon", "ChannelsLast"}, x)
	in := channelParameters(l, x)
	attrs := Attrs{"epsilon": l.epsilon, "groups": groups}
	if l.channelsLast {
		attrs["data_layout"] = "NHWC"
	}
	return l.result(l.activate(l.multi("group_norm", in, attrs, "Mean", "Variance", "Y")[2]))
}

// InstanceNorm gives each channel of each record [batch, channels, ...] mean 0 and variance 1, and then applies a learned scale and bias.
//
// Options: Act, Param (the scale, default 1), Bias (default 0), NoBias, Epsilon, Name. Op: instance_norm.
func InstanceNorm(x Variable, opts ...Option) Variable {
	l := start("instance_norm", opts, []string{"Act", "Param", "Bias", "NoBias", "Epsilon"}, x)
	in := channelParameters(l, x)
	return l.result(l.activate(l.multi("instance_norm", in, Attrs{"epsilon": l.epsilon}, "SavedMean", "SavedVariance", "Y")[2]))
}

// AffineChannel scales and shifts each channel of x [batch, channels, ...]: act(x*scale + bias).
//
// Options: Act, Param (the scale, default 1), Bias (default 0), ChannelsLast, Name. Op: affine_channel.
func AffineChannel(x Variable, opts ...Option) Variable {
	l := start("affine_channel", opts, []string{"Act", "Param", "Bias", "ChannelsLast"}, x)
	in := channelParameters(l, x)
	attrs := Attrs{}
	if l.channelsLast {
		attrs["data_layout"] = "NHWC"
	}
	return l.result(l.activate(l.op("affine_channel", in, attrs, "Out")))
}

// channelParameters makes the inputs of an op that has a scale and a bias for each channel.
func channelParameters(l *layer, x Variable) In {
	if !l.failed && x.rank() < 2 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("a batch axis and a channel axis")))
	}
	if l.failed {
		return In{}
	}
	axis := l.channelAxis(x)
	channels := x.v.Dims[axis : axis+1]
	in := In{"X": {x}, "Scale": {l.parameter("w", l.param, x.DType(), channels, Constant(1))}}
	if !l.noBias {
		in["Bias"] = []Variable{l.parameter("b", l.bias, x.DType(), channels, Constant(0))}
	}
	return in
}

// LRN divides each element of images [batch, channels, height, width] by a power of what the n channels around it have at its place: x / (k + alpha·Σx²)^beta.
// AlexNet uses n 5, k 2, alpha 1e-4 and beta 0.75.
//
// Options: ChannelsLast, Name. Op: lrn.
func LRN(x Variable, n int, k, alpha, beta float64, opts ...Option) Variable {
	l := start("lrn", opts, []string{"ChannelsLast"}, x)
	l.image(x)
	attrs := Attrs{"n": n, "k": k, "alpha": alpha, "beta": beta}
	if l.channelsLast {
		attrs["data_format"] = "NHWC"
	}
	return l.result(l.multi("lrn", In{"X": {x}}, attrs, "MidOut", "Out")[1])
}
