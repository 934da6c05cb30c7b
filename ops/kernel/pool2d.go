package kernel

import "github.com/edl-go/edl/tensor"

// PoolOutSize returns the extent of a pooling's output along one axis: (in - kernel + padding)/stride + 1, where the
// division rounds up with ceilMode, or 0 when the kernel does not fit. padding is the sum of both sides. kernel and stride
// are at least 1, padding at least 0.
func PoolOutSize(in, kernel, stride, padding int, ceilMode bool) int {
	room := in - kernel + padding
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
	InHeight, InWidth         int
	OutHeight, OutWidth       int
	KernelHeight, KernelWidth int
	StrideHeight, StrideWidth int
	PaddingTop, PaddingLeft   int // its elements do not count
	// Adaptive divides a plane evenly: output row i has the input rows from floor(i*InHeight/OutHeight) up to ceil((i+1)*InHeight/OutHeight), and columns
	// likewise. Kernel, stride and padding do not count then.
	Adaptive bool
}

// volumes returns the shape of a pooling of volumes that computes the same.
func (s *Pool2DShape) volumes() Pool3DShape {
	return Pool3DShape{
		Depth:  PoolAxis{In: 1, Out: 1, Kernel: 1, Stride: 1},
		Height: PoolAxis{s.InHeight, s.OutHeight, s.KernelHeight, s.StrideHeight, s.PaddingTop, s.Adaptive},
		Width:  PoolAxis{s.InWidth, s.OutWidth, s.KernelWidth, s.StrideWidth, s.PaddingLeft, s.Adaptive},
	}
}

// MaxPool2D writes the largest element of each window, NaN if there is one, 0 for an empty window. Windows of 2 x 2 have the first of equals. line holds InWidth elements.
func MaxPool2D[T tensor.Float](s *Pool2DShape, planes int, out, x, line []T) {
	v := vectorsOf[T]()
	if volumes := s.volumes(); !s.isOfPairs() {
		MaxPool3D(&volumes, planes, out, x, line)
		return
	} else if v == nil {
		maxPoolBoxes(&volumes, planes, out, nil, x)
		return
	}
	size, count := s.InHeight*s.InWidth, s.OutHeight*s.OutWidth
	for p := range planes {
		v.MaxPool2x2(singles(out[p*count:][:count]), singles(x[p*size:][:size]), s.OutHeight, s.OutWidth, s.InWidth)
	}
}

// MaxPool2DGrad overwrites dx: each dout goes to the first element of its window that is the largest, or NaN.
func MaxPool2DGrad[T tensor.Float](s *Pool2DShape, planes int, dx, x, dout []T) {
	v := vectorsOf[T]()
	if v == nil || !s.isOfPairs() {
		volumes := s.volumes()
		MaxPool3DGrad(&volumes, planes, dx, x, nil, dout)
		return
	}
	size, count := s.InHeight*s.InWidth, s.OutHeight*s.OutWidth
	if 2*s.OutHeight < s.InHeight || 2*s.OutWidth < s.InWidth {
		clear(dx[:planes*size])
	}
	for p := range planes {
		v.MaxPool2x2Grad(singles(dx[p*size:][:size]), singles(x[p*size:][:size]), singles(dout[p*count:][:count]), s.OutHeight, s.OutWidth, s.InWidth)
	}
}

// isOfPairs reports whether vector functions for windows of 2 x 2 can compute this shape.
func (s *Pool2DShape) isOfPairs() bool {
	return !s.Adaptive && s.KernelHeight == 2 && s.KernelWidth == 2 && s.StrideHeight == 2 && s.StrideWidth == 2 && s.PaddingTop == 0 &&
		s.PaddingLeft == 0 && s.OutHeight > 0 && s.OutWidth >= 4 && 2*s.OutHeight <= s.InHeight && 2*s.OutWidth <= s.InWidth
}
