package layers

// Pool3D takes the maximum of each cubic window of a volume [batch, channels, depth, height, width].
//
// Options: AvgPool, Stride3D, Padding3D, PaddingSame, WindowSize3D, GlobalPooling, CeilMode, CountPadding, ChannelsLast, Name. Op: pool3d.
func Pool3D(x Variable, size int64, opts ...Option) Variable {
	l := start("pool3d", opts, []string{"AvgPool", "Stride3D", "Padding3D", "PaddingSame", "WindowSize3D", "GlobalPooling", "CeilMode", "CountPadding",
		"ChannelsLast"}, x)
	return l.result(l.op("pool3d", In{"X": {x}}, l.boxAttrs(Attrs{"pooling_type": l.poolingType(), "ksize": orBox(l.window3, size),
		"global_pooling": l.global, "ceil_mode": l.ceilMode, "exclusive": !l.inclusive}), "Out"))
}

// AdaptivePool3D divides a volume [batch, channels, depth, height, width] evenly into depth x height x width windows, which may overlap by one, and takes the
// maximum of each.
//
// Options: AvgPool, ChannelsLast, Name. Op: pool3d with adaptive.
func AdaptivePool3D(x Variable, depth, height, width int64, opts ...Option) Variable {
	l := start("adaptive_pool3d", opts, []string{"AvgPool", "ChannelsLast"}, x)
	return l.result(l.op("pool3d", In{"X": {x}},
		l.boxAttrs(Attrs{"pooling_type": l.poolingType(), "ksize": []int64{depth, height, width}, "adaptive": true}), "Out"))
}

// MaxPool2DWithIndex takes the maximum of each square window of an image [batch, channels, height, width]. The second result says where each maximum is: int32,
// the place within its channel, counted row by row.
//
// Options: Stride, Padding, WindowSize, GlobalPooling, Name. Op: max_pool2d_with_index.
func MaxPool2DWithIndex(x Variable, size int64, opts ...Option) (largest, places Variable) {
	l := start("max_pool2d_with_index", opts, []string{"Stride", "Padding", "WindowSize", "GlobalPooling"}, x)
	l.image(x)
	out := l.multi("max_pool2d_with_index", In{"X": {x}}, Attrs{"ksize": l.windowOr(size), "strides": l.stride, "paddings": l.padding,
		"global_pooling": l.global}, "Out", "Mask")
	return l.result(out[0]), out[1]
}

// Unpool puts elements back to the places that MaxPool2DWithIndex has told, in an image of zeros. Give it the size and options of that layer.
//
// Options: Stride, Padding, WindowSize, Name. Op: unpool.
func Unpool(x, places Variable, size int64, opts ...Option) Variable {
	l := start("unpool", opts, []string{"Stride", "Padding", "WindowSize"}, x, places)
	l.image(x)
	return l.result(l.op("unpool", In{"X": {x}, "Indices": {places}}, Attrs{"ksize": l.windowOr(size), "strides": l.stride, "paddings": l.padding,
		"unpooling_type": "max"}, "Out"))
}

// SPP pools images [batch, channels, height, width] of any extents to rows of one length: level p of so many divides height and width into 2^p windows each, and takes
// the maximum of each. The result is [batch, channels*(4^levels-1)/3].
//
// Options: AvgPool, Name. Op: spp.
func SPP(x Variable, levels int64, opts ...Option) Variable {
	l := start("spp", opts, []string{"AvgPool"}, x)
	return l.result(l.op("spp", In{"X": {x}}, Attrs{"pyramid_height": levels, "pooling_type": l.poolingType()}, "Out"))
}
