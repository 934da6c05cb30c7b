package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

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

// window is the part of an input plane behind one output element. It may be empty, in the padding beyond a plane.
type window struct{ top, bottom, left, right int }

// window is the part of an input plane that an output element depends on. A window in the padding may be empty.
func (s *Pool2DShape) window(oy, ox int) window {
	if s.Adaptive {
		return window{
			top: oy * s.InHeight / s.OutHeight, bottom: ((oy+1)*s.InHeight + s.OutHeight - 1) / s.OutHeight,
			left: ox * s.InWidth / s.OutWidth, right: ((ox+1)*s.InWidth + s.OutWidth - 1) / s.OutWidth,
		}
	}
	top, left := oy*s.StrideHeight-s.PaddingTop, ox*s.StrideWidth-s.PaddingLeft
	return window{
		top: max(top, 0), bottom: min(top+s.KernelHeight, s.InHeight),
		left: max(left, 0), right: min(left+s.KernelWidth, s.InWidth),
	}
}

func (w window) count() int { return max(w.bottom-w.top, 0) * max(w.right-w.left, 0) }

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
	v := s.pairs(vectorsOf[T]())
	if v == nil || argmax != nil || 2*s.OutHeight < s.InHeight || 2*s.OutWidth < s.InWidth {
		clear(dx[:planes*size])
	}
	if v != nil && argmax == nil {
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
	if s.Adaptive || s.KernelHeight != 2 || s.KernelWidth != 2 || s.StrideHeight != 2 || s.StrideWidth != 2 || s.PaddingTop != 0 ||
		s.PaddingLeft != 0 || s.OutHeight == 0 || s.OutWidth < 4 || 2*s.OutHeight > s.InHeight || 2*s.OutWidth > s.InWidth {
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

// AvgPool2D writes the sum of each window over its number of elements with exclusive, over the size of the kernel without; 0 for
// an empty window.
func AvgPool2D[T tensor.Float](s *Pool2DShape, planes int, exclusive bool, out, x []T) {
	at := 0
	for p := range planes {
		plane := x[p*s.InHeight*s.InWidth:][:s.InHeight*s.InWidth]
		for oy := range s.OutHeight {
			for ox := range s.OutWidth {
				w := s.window(oy, ox)
				total := 0.0
				for y := w.top; y < w.bottom && w.left < w.right; y++ {
					total += sum(plane[y*s.InWidth+w.left : y*s.InWidth+w.right])
				}
				out[at] = T(total / s.divisor(w, exclusive))
				at++
			}
		}
	}
}

// AvgPool2DGrad overwrites dx: each dout is divided as in AvgPool2D and added to all elements of its window.
func AvgPool2DGrad[T tensor.Float](s *Pool2DShape, planes int, exclusive bool, dx, dout []T) {
	size := s.InHeight * s.InWidth
	clear(dx[:planes*size])
	at := 0
	for p := range planes {
		plane := dx[p*size:][:size]
		for oy := range s.OutHeight {
			for ox := range s.OutWidth {
				w := s.window(oy, ox)
				g := T(float64(dout[at]) / s.divisor(w, exclusive))
				for y := w.top; y < w.bottom && w.left < w.right; y++ {
					row := plane[y*s.InWidth+w.left : y*s.InWidth+w.right]
					for i := range row {
						row[i] += g
					}
				}
				at++
			}
		}
	}
}

// divisor returns the divisor of the sum of a window, at least 1.
func (s *Pool2DShape) divisor(w window, exclusive bool) float64 {
	if exclusive || s.Adaptive {
		return float64(max(w.count(), 1))
	}
	return float64(s.KernelHeight * s.KernelWidth)
}
