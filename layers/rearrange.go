package layers

// PixelShuffle makes images that are factor times as high and wide out of images [batch, channels·factor², height, width].
//
// Options: ChannelsLast, Name. Op: pixel_shuffle.
func PixelShuffle(x Variable, factor int, opts ...Option) Variable {
	return scalePixels("pixel_shuffle", "upscale_factor", x, factor, opts)
}

// PixelUnshuffle is PixelShuffle backwards: it makes images [batch, channels·factor², height/factor, width/factor] out of images [batch, channels, height, width].
//
// Options: ChannelsLast, Name. Op: pixel_unshuffle.
func PixelUnshuffle(x Variable, factor int, opts ...Option) Variable {
	return scalePixels("pixel_unshuffle", "downscale_factor", x, factor, opts)
}

func scalePixels(opType, attr string, x Variable, factor int, opts []Option) Variable {
	l := start(opType, opts, []string{"ChannelsLast"}, x)
	l.image(x)
	attrs := Attrs{attr: factor}
	if l.channelsLast {
		attrs["data_format"] = "NHWC"
	}
	return l.result(l.op(opType, In{"X": {x}}, attrs, "Out"))
}

// ShuffleChannel exchanges channels of images [batch, channels, height, width] between groups, so that a convolution in groups sees channels of all groups before it.
//
// Options: Name. Op: shuffle_channel.
func ShuffleChannel(x Variable, groups int, opts ...Option) Variable {
	return imageOp("shuffle_channel", x, Attrs{"group": groups}, opts)
}

// SpaceToDepth moves blocks of pixels to channels: [batch, channels, height, width] becomes [batch, channels·block², height/block, width/block]. It is the layer
// reorg of YOLO v2, so block² must divide channels.
//
// Options: Name. Op: space_to_depth.
func SpaceToDepth(x Variable, block int, opts ...Option) Variable {
	return imageOp("space_to_depth", x, Attrs{"blocksize": block}, opts)
}

// TemporalShift takes some channels of each frame of a video from the frame before, and as many from the frame after. x holds frames [batch, channels, height,
// width]; frames that follow one another are a video. share is that of the channels that come from one direction, at most 0.5.
//
// Options: Name. Op: temporal_shift.
func TemporalShift(x Variable, frames int, share float64, opts ...Option) Variable {
	return imageOp("temporal_shift", x, Attrs{"seg_num": frames, "shift_ratio": share}, opts)
}

// imageOp is a layer of one op on images that takes only the option Name.
func imageOp(opType string, x Variable, attrs Attrs, opts []Option) Variable {
	l := start(opType, opts, nil, x)
	l.image(x)
	return l.result(l.op(opType, In{"X": {x}}, attrs, "Out"))
}
