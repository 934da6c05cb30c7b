package layers

import "github.com/edl-go/edl/fault"

// OutputSize sets the height and width of the result of Conv2DTranspose: with stride s, s sizes have the same input. The default is the least of them.
func OutputSize(height, width int) Option {
	return Option{"OutputSize", func(s *settings) { s.outputSize = window(height, width) }}
}

// Conv2DTranspose is the transpose of Conv2D, also called deconvolution: each pixel of the images [batch, channels, height, width] adds itself times a filter
// to a window of the result. With w [channels, filters/groups, size, size] the result is stride*(height-1) - 2*padding + dilation*(size-1) + 1 high.
//
// Options: Act, Param (default Xavier), Bias (default 0), NoBias, OutputSize, Stride, Padding, PaddingSides, PaddingSame, Dilation, Groups, WindowSize,
// ChannelsLast, Name. Ops: conv2d_transpose, elementwise_add, activation.
func Conv2DTranspose(x Variable, filters, size int64, opts ...Option) Variable {
	l := start("conv2d_transpose", opts, []string{"Act", "Param", "Bias", "NoBias", "OutputSize", "Stride", "Padding", "PaddingSides", "PaddingSame", "Dilation",
		"Groups", "WindowSize", "ChannelsLast"}, x)
	l.image(x)
	if l.failed {
		return l.fail()
	}
	attrs := l.windowAttrs(Attrs{"dilations": l.dilation, "groups": l.groups})
	if l.outputSize != nil {
		attrs["output_size"] = l.outputSize
	}
	return transposed(l, "conv2d_transpose", x, filters, l.windowOr(size), attrs)
}

// transposed appends a transposed convolution with its parameters, and ends the layer.
func transposed(l *layer, opType string, x Variable, filters int64, size []int64, attrs Attrs) Variable {
	axis := l.channelAxis(x)
	channels := x.v.Dims[axis]
	if !groupsDivide(l, channels, filters) {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), append([]int64{channels, filters / int64(l.groups)}, size...), Xavier())
	y := l.op(opType, In{"Input": {x}, "Filter": {w}}, attrs, "Output")
	return l.result(l.activate(l.addBias(y, axis)))
}

// groupsDivide reports whether the groups divide channels and filters, and notes a mistake if they do not.
func groupsDivide(l *layer, channels, filters int64) bool {
	if g := int64(l.groups); g < 1 || channels%g != 0 || filters%g != 0 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d groups for %d channels and %d filters", l.groups, channels, filters), fault.Want("a divisor of both")))
		return false
	}
	return true
}
