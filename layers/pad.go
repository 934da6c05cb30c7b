package layers

// PadMode says what Pad2D adds: "constant", "reflect" (mirrored at the border) or "edge" (the border again). The default is "constant".
func PadMode(mode string) Option { return Option{"PadMode", func(s *settings) { s.padMode = mode }} }

// PadValue is the value of what a padding adds. The default is 0.
func PadValue(value float64) Option {
	return Option{"PadValue", func(s *settings) { s.padValue = value }}
}

// Pad adds elements around x: paddings holds how many before and after it on each axis.
//
// Options: PadValue, Name. Op: pad.
func Pad(x Variable, paddings []int, opts ...Option) Variable {
	l := start("pad", opts, []string{"PadValue"}, x)
	return l.result(l.op("pad", In{"X": {x}}, Attrs{"paddings": paddings, "pad_value": l.padValue}, "Out"))
}

// Pad2D adds rows above and below images, and columns left and right of them. Images are [batch, channels, rows, columns].
//
// Options: PadMode, PadValue, Name. Op: pad2d.
func Pad2D(x Variable, above, below, left, right int, opts ...Option) Variable {
	l := start("pad2d", opts, []string{"PadMode", "PadValue"}, x)
	return l.result(l.op("pad2d", In{"X": {x}}, Attrs{"paddings": []int{above, below, left, right}, "mode": l.padMode, "pad_value": l.padValue}, "Out"))
}

// PadConstantLike adds elements after those of y on each axis, until it has the dims of x.
//
// Options: PadValue, Name. Op: pad_constant_like.
func PadConstantLike(x, y Variable, opts ...Option) Variable {
	l := start("pad_constant_like", opts, []string{"PadValue"}, x, y)
	return l.result(l.op("pad_constant_like", In{"X": {x}, "Y": {y}}, Attrs{"pad_value": l.padValue}, "Out"))
}

// Crop cuts a part out of x that begins at offsets, one for each axis. A -1 in dims takes all from the offset on.
//
// Options: Name. Op: crop_tensor.
func Crop(x Variable, dims, offsets []int64, opts ...Option) Variable {
	l := start("crop_tensor", opts, nil, x)
	return l.result(l.op("crop_tensor", In{"X": {x}}, Attrs{"shape": dims, "offsets": offsets}, "Out"))
}
