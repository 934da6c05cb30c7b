package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// MaxPool2D writes the largest element of each window, the first NaN if there is one, 0 for an empty window. argmax, unless
// nil, gets the place of that element within its plane, the first of equals in row-major order, -1 for an empty window.
func MaxPool2D[T tensor.Float](s *Pool2DShape, planes int, out []T, argmax []int32, x []T) {
	if v := s.pairs(vectorsOf[T]()); v != nil && argmax == nil {
		size, count := s.InHeight*s.InWidth, s.OutHeight*s.OutWidth
		for p := range planes {
			v.MaxPool2x2(singles(out[p*count:][:count]), singles(x[p*size:][:size]), s.OutHeight, s.OutWidth, s.InWidth)
		}
		return
	}
	at := 0
	for p := range planes {
		plane := x[p*s.InHeight*s.InWidth:][:s.InHeight*s.InWidth]
		for oy := range s.OutHeight {
			for ox := range s.OutWidth {
				best := largestIn(plane, s.InWidth, s.window(oy, ox))
				out[at] = 0
				if best >= 0 {
					out[at] = plane[best]
				}
				if argmax != nil {
					argmax[at] = int32(best)
				}
				at++
			}
		}
	}
}

// MaxPool2DGrad overwrites dx: each dout goes to the element that was the largest of its window. argmax is what MaxPool2D
// gave, or nil to find the elements again in x; with argmax, x may be nil.
func MaxPool2DGrad[T tensor.Float](s *Pool2DShape, planes int, dx, x []T, argmax []int32, dout []T) {
	size := s.InHeight * s.InWidth
	clear(dx[:planes*size])
	if v := s.pairs(vectorsOf[T]()); v != nil && argmax == nil {
		count := s.OutHeight * s.OutWidth
		for p := range planes {
			v.MaxPool2x2Grad(singles(dx[p*size:][:size]), singles(x[p*size:][:size]), singles(dout[p*count:][:count]), s.OutHeight, s.OutWidth, s.InWidth)
		}
		return
	}
	at := 0
	for p := range planes {
		to := dx[p*size:][:size]
		for oy := range s.OutHeight {
			for ox := range s.OutWidth {
				best := 0
				if argmax != nil {
					best = int(argmax[at])
				} else {
					best = largestIn(x[p*size:][:size], s.InWidth, s.window(oy, ox))
				}
				if best >= 0 {
					to[best] += dout[at]
				}
				at++
			}
		}
	}
}

// pairs returns v where its functions for windows of 2 x 2 compute this shape, else nil.
func (s *Pool2DShape) pairs(v *simd.Vectors) *simd.Vectors {
	if s.KernelHeight != 2 || s.KernelWidth != 2 || s.StrideHeight != 2 || s.StrideWidth != 2 || s.PaddingHeight != 0 ||
		s.PaddingWidth != 0 || s.OutHeight == 0 || s.OutWidth < 4 || 2*s.OutHeight > s.InHeight || 2*s.OutWidth > s.InWidth {
		return nil
	}
	return v
}

// largestIn returns the place of the first largest element, or of the first NaN, in a window of a plane, -1 if it is empty.
func largestIn[T tensor.Float](plane []T, width int, w window) int {
	if w.count() == 0 {
		return -1
	}
	best := w.top*width + w.left
	top := plane[best]
	for y := w.top; y < w.bottom; y++ {
		for i, v := range plane[y*width+w.left : y*width+w.right] {
			if v > top || v != v && top == top {
				top, best = v, y*width+w.left+i
			}
		}
	}
	return best
}
