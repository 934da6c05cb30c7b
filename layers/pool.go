package layers

// AvgPool takes the average of the window instead of the maximum.
func AvgPool() Option { return Option{"AvgPool", func(s *settings) { s.avg = true }} }

// GlobalPooling makes the window as large as the image.
func GlobalPooling() Option { return Option{"GlobalPooling", func(s *settings) { s.global = true }} }

// CeilMode rounds the size of the result up, so that the last window may reach over the edge.
func CeilMode() Option { return Option{"CeilMode", func(s *settings) { s.ceilMode = true }} }

// CountPadding lets padded zeros count in the average.
func CountPadding() Option { return Option{"CountPadding", func(s *settings) { s.inclusive = true }} }

// Pool2D takes the maximum of each square window of an image [batch, channels, height, width].
//
// Options: AvgPool, Stride, Padding, WindowSize, GlobalPooling, CeilMode, CountPadding, Name. Op: pool2d.
func Pool2D(x Variable, size int64, opts ...Option) Variable {
	l := start("pool2d", opts, []string{"AvgPool", "Stride", "Padding", "WindowSize", "GlobalPooling", "CeilMode", "CountPadding"}, x)
	l.image(x)
	kind := "max"
	if l.avg {
		kind = "avg"
	}
	return l.result(l.op("pool2d", In{"X": {x}}, Attrs{"pooling_type": kind, "ksize": l.windowOr(size), "strides": l.stride, "paddings": l.padding,
		"global_pooling": l.global, "ceil_mode": l.ceilMode, "exclusive": !l.inclusive}, "Out"))
}

// SimpleImgConvPool is Conv2D followed by Pool2D with a stride of its own. The options are those of Conv2D.
func SimpleImgConvPool(x Variable, filters, filterSize, poolSize int64, poolStride int, opts ...Option) Variable {
	return Pool2D(Conv2D(x, filters, filterSize, opts...), poolSize, Stride(poolStride, poolStride))
}
