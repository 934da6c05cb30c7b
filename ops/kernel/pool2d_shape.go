package kernel

// PoolOutSize returns the extent of a pooling's output along one axis: (in - kernel + 2*padding)/stride + 1, where the
// division rounds up with ceilMode, or 0 when the kernel does not fit. kernel and stride are at least 1, padding at
// least 0.
func PoolOutSize(in, kernel, stride, padding int, ceilMode bool) int {
	room := in - kernel + 2*padding
	if room < 0 {
		return 0
	}
	if ceilMode {
		room += stride - 1
	}
	return room/stride + 1
}

// Pool2DShape holds the extents of a pooling of planes: images times channels, each [InHeight, InWidth] in and
// [OutHeight, OutWidth] out. Global pooling is a kernel as large as the input with padding 0 and an output of 1 x 1.
type Pool2DShape struct {
	InHeight, InWidth           int
	OutHeight, OutWidth         int
	KernelHeight, KernelWidth   int
	StrideHeight, StrideWidth   int
	PaddingHeight, PaddingWidth int // on each of both sides; never looked at
}

// window is the part of an input plane behind one output element. It may be empty, in the padding beyond a plane.
type window struct{ top, bottom, left, right int }

func (s *Pool2DShape) window(oy, ox int) window {
	top, left := oy*s.StrideHeight-s.PaddingHeight, ox*s.StrideWidth-s.PaddingWidth
	return window{
		top: max(top, 0), bottom: min(top+s.KernelHeight, s.InHeight),
		left: max(left, 0), right: min(left+s.KernelWidth, s.InWidth),
	}
}

func (w window) count() int { return max(w.bottom-w.top, 0) * max(w.right-w.left, 0) }
