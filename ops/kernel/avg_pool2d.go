package kernel

import "github.com/edl-go/edl/tensor"

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

// divisor returns what the sum of a window is divided by, at least 1.
func (s *Pool2DShape) divisor(w window, exclusive bool) float64 {
	if exclusive {
		return float64(max(w.count(), 1))
	}
	return float64(s.KernelHeight * s.KernelWidth)
}
