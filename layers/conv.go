package layers

import "math"

// Stride sets how far the window moves, in rows and columns. The default is 1, 1.
func Stride(height, width int) Option {
	return Option{"Stride", func(s *settings) { s.stride = window(height, width) }}
}

// Padding sets how many rows above and below, and columns left and right, the layer adds to the image. The default is 0, 0.
func Padding(height, width int) Option {
	return Option{"Padding", func(s *settings) { s.padding = window(height, width) }}
}

// Dilation sets the distance between the points of a filter. The default is 1, 1.
func Dilation(height, width int) Option {
	return Option{"Dilation", func(s *settings) { s.dilation = window(height, width) }}
}

// Groups splits the channels into groups with a convolution each. The default is 1.
func Groups(n int) Option { return Option{"Groups", func(s *settings) { s.groups = n }} }

// WindowSize sets a filter or pooling window that is not square.
func WindowSize(height, width int) Option {
	return Option{"WindowSize", func(s *settings) { s.window = window(height, width) }}
}

func window(height, width int) []int64 { return []int64{int64(height), int64(width)} }

// Conv2D convolves images [batch, channels, height, width] with a number of square filters, and adds a bias per filter:
// act(x * w + b) with w [filters, channels/groups, size, size].
//
// Options: Act, Param (default Normal(0, √(2/(size²·channels)))), Bias (default 0), NoBias, Stride, Padding, PaddingSides, PaddingSame, Dilation, Groups,
// WindowSize, ChannelsLast, Name. Ops: conv2d, elementwise_add, activation.
func Conv2D(x Variable, filters, size int64, opts ...Option) Variable {
	l := start("conv2d", opts, []string{"Act", "Param", "Bias", "NoBias", "Stride", "Padding", "Dilation", "Groups", "WindowSize", "PaddingSides",
		"PaddingSame", "ChannelsLast"}, x)
	l.image(x)
	if l.failed {
		return l.fail()
	}
	channels := x.v.Dims[l.channelAxis(x)]
	if !groupsDivide(l, channels, filters) {
		return l.fail()
	}
	side := l.windowOr(size)
	deviation := math.Sqrt(2 / float64(side[0]*side[1]*channels))
	w := l.parameter("w", l.param, x.DType(), []int64{filters, channels / int64(l.groups), side[0], side[1]}, Normal(0, deviation))
	y := l.op("conv2d", In{"Input": {x}, "Filter": {w}},
		l.windowAttrs(Attrs{"dilations": l.dilation, "groups": l.groups}), "Output")
	return l.result(l.activate(l.addBias(y, l.channelAxis(x))))
}

func (l *layer) windowOr(size int64) []int64 {
	if l.window != nil {
		return l.window
	}
	return []int64{size, size}
}

// AvgPool takes the average of the window instead of the maximum.
func AvgPool() Option { return Option{"AvgPool", func(s *settings) { s.avg = true }} }

// GlobalPooling makes the window as large as the image.
func GlobalPooling() Option { return Option{"GlobalPooling", func(s *settings) { s.global = true }} }

// CeilMode rounds the size of the result up. The last window may then reach over the edge.
func CeilMode() Option { return Option{"CeilMode", func(s *settings) { s.ceilMode = true }} }

// CountPadding lets padded zeros count in the average.
func CountPadding() Option { return Option{"CountPadding", func(s *settings) { s.inclusive = true }} }

// Pool2D takes the maximum of each square window of an image [batch, channels, height, width].
//
// Options: AvgPool, Stride, Padding, PaddingSides, PaddingSame, WindowSize, GlobalPooling, CeilMode, CountPadding, ChannelsLast, Name. Op: pool2d.
func Pool2D(x Variable, size int64, opts ...Option) Variable {
	l := start("pool2d", opts, []string{"AvgPool", "Stride", "Padding", "WindowSize", "GlobalPooling", "CeilMode", "CountPadding", "PaddingSides",
		"PaddingSame", "ChannelsLast"}, x)
	l.image(x)
	return l.result(l.op("pool2d", In{"X": {x}}, l.windowAttrs(Attrs{"pooling_type": l.poolingType(), "ksize": l.windowOr(size),
		"global_pooling": l.global, "ceil_mode": l.ceilMode, "exclusive": !l.inclusive}), "Out"))
}

// SimpleImgConvPool is Conv2D followed by Pool2D with a stride of its own. The options are those of Conv2D.
func SimpleImgConvPool(x Variable, filters, filterSize, poolSize int64, poolStride int, opts ...Option) Variable {
	return Pool2D(Conv2D(x, filters, filterSize, opts...), poolSize, Stride(poolStride, poolStride))
}
