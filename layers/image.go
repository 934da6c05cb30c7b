package layers

import "github.com/edl-go/edl/fault"

// imageSettings holds what options of layers for images set.
type imageSettings struct {
	sides        []int64 // padding above, below, left and right; nil for that of Padding
	algorithm    string  // of padding; "" for numbers
	channelsLast bool
	globalStats  bool
	outputSize   []int64 // of a transposed convolution; nil for the least
	corners      *bool   // of resizing; nil for the default of the layer
	centres      bool

	stride3, padding3, dilation3, window3 []int64 // of volumes; nil for the defaults
}

// PaddingSides sets how many rows above and below, and how many columns left and right, a layer adds to the image.
func PaddingSides(above, below, left, right int) Option {
	return Option{"PaddingSides", func(s *settings) {
		s.sides = []int64{int64(above), int64(below), int64(left), int64(right)}
	}}
}

// PaddingSame adds as much padding as makes the result of stride 1 as large as the image, and that of a larger stride as large as the image divided by it, rounded
// up. Where the padding of an axis is odd, there is more below or on the right. It is padding="SAME" of Fluid. Dilation does not count then.
func PaddingSame() Option {
	return Option{"PaddingSame", func(s *settings) { s.algorithm = "SAME" }}
}

// ChannelsLast says that images are [batch, height, width, channels], which Fluid calls NHWC. Filters stay [filters, channels, height, width].
func ChannelsLast() Option {
	return Option{"ChannelsLast", func(s *settings) { s.channelsLast = true }}
}

// UseGlobalStats makes BatchNorm use the moving statistics in training too. They stay as they are.
func UseGlobalStats() Option {
	return Option{"UseGlobalStats", func(s *settings) { s.globalStats = true }}
}

// channelAxis returns the axis of channels in images.
func (s *settings) channelAxis(x Variable) int {
	if s.channelsLast {
		return x.rank() - 1
	}
	return 1
}

// windowAttrs sets where windows lie in images: stride, padding and layout.
func (s *settings) windowAttrs(attrs Attrs) Attrs {
	attrs["strides"], attrs["paddings"] = s.stride, s.padding
	if s.sides != nil {
		attrs["paddings"] = s.sides
	}
	if s.algorithm != "" {
		attrs["padding_algorithm"] = s.algorithm
	}
	if s.channelsLast {
		attrs["data_format"] = "NHWC"
	}
	return attrs
}

// AdaptivePool2D divides an image [batch, channels, height, width] evenly into height x width windows, which may overlap by one, and takes the maximum of each.
//
// Options: AvgPool, ChannelsLast, Name. Op: pool2d with adaptive.
func AdaptivePool2D(x Variable, height, width int64, opts ...Option) Variable {
	l := start("adaptive_pool2d", opts, []string{"AvgPool", "ChannelsLast"}, x)
	l.image(x)
	return l.result(l.op("pool2d", In{"X": {x}},
		l.windowAttrs(Attrs{"pooling_type": l.poolingType(), "ksize": []int64{height, width}, "adaptive": true}), "Out"))
}

func (s *settings) poolingType() string {
	if s.avg {
		return "avg"
	}
	return "max"
}

// image checks that x is a batch of images.
func (l *layer) image(x Variable) {
	if !l.failed && x.rank() != 4 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("[batch, channels, height, width]")))
	}
}
