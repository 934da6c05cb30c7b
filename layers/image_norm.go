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

// SpectralNorm divides a weight by an estimate of its largest singular value: that of the matrix whose rows axis dim counts, after some steps of power iteration.
// The vectors that it begins with are parameters that are not trained.
//
// Options: Name. Op: spectral_norm.
func SpectralNorm(weight Variable, dim, steps int, opts ...Option) Variable {
	l := start("spectral_norm", opts, nil, weight)
	if l.failed {
		return l.fail()
	}
	if dim < 0 || dim >= weight.rank() || weight.v.Dims[dim] < 1 {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("axis %d", dim), fault.Wantf("an axis of %v whose extent is known", weight)))
	}
	rows := weight.v.Dims[dim]
	columns := int64(1)
	for _, extent := range weight.v.Dims {
		columns *= extent
	}
	vector := func(n int64) []Variable {
		return []Variable{l.parameter("w", ParamAttr{Frozen: true}, weight.DType(), []int64{n}, Normal(0, 1))}
	}
	return l.result(l.op("spectral_norm", In{"Weight": {weight}, "U": vector(rows), "V": vector(columns / rows)}, Attrs{"dim": dim, "power_iters": steps}, "Out"))
}
