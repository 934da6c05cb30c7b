package kernel

import "github.com/edl-go/edl/tensor"

// An UnfoldShape describes windows that slide over images of channels x height x width. Up and Left are the rows and columns of zeros before the image.
type UnfoldShape struct {
	Channels, Height, Width int
	KernelH, KernelW        int
	StrideH, StrideW        int
	Up, Left                int
	DilationH, DilationW    int
	OutH, OutW              int // positions of the window
}

// each calls do for every element of the windows of one image: at is its place in the output, and from its place in the image, -1 for padding.
func (s *UnfoldShape) each(do func(at, from int)) {
	at := 0
	for c := range s.Channels {
		for kh := range s.KernelH {
			for kw := range s.KernelW {
				for oh := range s.OutH {
					y := oh*s.StrideH - s.Up + kh*s.DilationH
					for ow := range s.OutW {
						x := ow*s.StrideW - s.Left + kw*s.DilationW
						from := -1
						if y >= 0 && y < s.Height && x >= 0 && x < s.Width {
							from = (c*s.Height+y)*s.Width + x
						}
						do(at, from)
						at++
					}
				}
			}
		}
	}
}

// sizes returns the elements of an image and of its windows.
func (s *UnfoldShape) sizes() (image, windows int) {
	return s.Channels * s.Height * s.Width, s.Channels * s.KernelH * s.KernelW * s.OutH * s.OutW
}

// Unfold writes the windows of images [from, to): a row for each channel and place in the window, a column for each position of the window (Fluid's unfold).
func Unfold[T tensor.Float](s *UnfoldShape, out, x []T, from, to int) {
	image, windows := s.sizes()
	for n := from; n < to; n++ {
		src, dst := x[n*image:(n+1)*image], out[n*windows:(n+1)*windows]
		s.each(func(at, from int) {
			dst[at] = 0
			if from >= 0 {
				dst[at] = src[from]
			}
		})
	}
}

// UnfoldGrad sums, for each element of images [from, to), the gradients of all windows that show it.
func UnfoldGrad[T tensor.Float](s *UnfoldShape, dx, dout []T, from, to int) {
	image, windows := s.sizes()
	for n := from; n < to; n++ {
		src, dst := dout[n*windows:(n+1)*windows], dx[n*image:(n+1)*image]
		clear(dst)
		s.each(func(at, from int) {
			if from >= 0 {
				dst[from] += src[at]
			}
		})
	}
}
