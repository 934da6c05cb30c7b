package layers

import "github.com/edl-go/edl/fault"

// AlignCorners says whether the corner pixels of an image and of the resized one lie upon each other, and the others evenly between them.
func AlignCorners(on bool) Option {
	return Option{"AlignCorners", func(s *settings) { s.corners = &on }}
}

// AlignCentres makes linear resizing without AlignCorners take places as centres of pixels: place o lies at (o + 0.5)·r - 0.5 and not at o·r in the image, where r
// is its size over the new one. It is align_mode 0 of Fluid.
func AlignCentres() Option { return Option{"AlignCentres", func(s *settings) { s.centres = true }} }

// ImageResize resizes images [batch, channels, height, width]. method is BILINEAR, NEAREST or BICUBIC, or for volumes [batch, channels, depth, height, width], whose
// size has three numbers, TRILINEAR.
//
// Options: AlignCorners (default true), AlignCentres, ChannelsLast, Name. Ops: bilinear_interp, nearest_interp, bicubic_interp, trilinear_interp.
func ImageResize(x Variable, size []int64, method string, opts ...Option) Variable {
	ops := map[string]string{"BILINEAR": "bilinear_interp", "NEAREST": "nearest_interp", "BICUBIC": "bicubic_interp", "TRILINEAR": "trilinear_interp",
		"LINEAR": "linear_interp"}
	return resize("image_resize", x, size, ops[method], true, opts)
}

// ResizeBilinear resizes images [batch, channels, height, width], interpolating linearly between four pixels.
//
// Options: AlignCorners (default true), AlignCentres, ChannelsLast, Name. Op: bilinear_interp.
func ResizeBilinear(x Variable, height, width int64, opts ...Option) Variable {
	return resize("resize_bilinear", x, []int64{height, width}, "bilinear_interp", true, opts)
}

// ResizeNearest resizes images [batch, channels, height, width]: each pixel is the nearest one.
//
// Options: AlignCorners (default true), ChannelsLast, Name. Op: nearest_interp.
func ResizeNearest(x Variable, height, width int64, opts ...Option) Variable {
	return resize("resize_nearest", x, []int64{height, width}, "nearest_interp", true, opts)
}

// ResizeTrilinear resizes volumes [batch, channels, depth, height, width], interpolating linearly between eight voxels.
//
// Options: AlignCorners (default true), AlignCentres, ChannelsLast, Name. Op: trilinear_interp.
func ResizeTrilinear(x Variable, depth, height, width int64, opts ...Option) Variable {
	return resize("resize_trilinear", x, []int64{depth, height, width}, "trilinear_interp", true, opts)
}

// Interpolate resizes x [batch, channels, ...] to a size of one number for each further axis, as Paddle 2 does: without AlignCorners unless it is given. mode is
// linear, nearest, bilinear, bicubic or trilinear.
//
// Options: AlignCorners (default false), AlignCentres, ChannelsLast, Name. Ops: linear_interp_v2, nearest_interp_v2 and so on.
func Interpolate(x Variable, size []int64, mode string, opts ...Option) Variable {
	ops := map[string]string{"bilinear": "bilinear_interp_v2", "nearest": "nearest_interp_v2", "bicubic": "bicubic_interp_v2", "trilinear": "trilinear_interp_v2",
		"linear": "linear_interp_v2"}
	return resize("interpolate", x, size, ops[mode], false, opts)
}

func resize(kind string, x Variable, size []int64, opType string, corners bool, opts []Option) Variable {
	l := start(kind, opts, []string{"AlignCorners", "AlignCentres", "ChannelsLast"}, x)
	switch {
	case l.failed:
		return l.fail()
	case opType == "":
		return l.mistake(fault.E(fault.InvalidArgument, fault.Got("a method that no op has"), fault.Want("linear, nearest, bilinear, bicubic or trilinear; in capitals for ImageResize")))
	case len(size) < 1 || len(size) > 3 || x.rank() != 2+len(size):
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Gotf("%v and a size of %d numbers", x, len(size)), fault.Want("one number for each axis after batch and channels")))
	}
	if l.corners != nil {
		corners = *l.corners
	}
	attrs := Attrs{"align_corners": corners, "align_mode": 1}
	if l.centres {
		attrs["align_mode"] = 0
	}
	if l.channelsLast {
		attrs["data_layout"] = "NHWC"
	}
	for i, name := range []string{"out_d", "out_h", "out_w"}[3-len(size):] {
		attrs[name] = size[i]
	}
	return l.result(l.op(opType, In{"X": {x}}, attrs, "Out"))
}
