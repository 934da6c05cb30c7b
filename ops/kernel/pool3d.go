package kernel

import "github.com/edl-go/edl/tensor"

// A PoolAxis says how windows lie along one axis.
type PoolAxis struct {
	In, Out                 int
	Kernel, Stride, Padding int // padding lies before the first element, and its elements do not count
	// Adaptive divides the axis evenly: output i has the elements from floor(i*In/Out) up to ceil((i+1)*In/Out). Kernel, stride and padding do not count then.
	Adaptive bool
}

// bounds returns the elements [first, end) of a window, none in the padding beyond the axis.
func (a *PoolAxis) bounds(o int) (first, end int) {
	if a.Adaptive {
		return o * a.In / a.Out, ((o+1)*a.In + a.Out - 1) / a.Out
	}
	first = o*a.Stride - a.Padding
	end = min(first+a.Kernel, a.In)
	first = min(max(first, 0), a.In)
	return first, max(first, end)
}

// Pool3DShape holds the extents of a pooling of volumes: samples times channels, each [Depth.In, Height.In, Width.In] in and [Depth.Out, Height.Out, Width.Out]
// out. Images are volumes of depth 1. Global pooling is a kernel as large as the input, and one output.
type Pool3DShape struct{ Depth, Height, Width PoolAxis }

func (s *Pool3DShape) inSize() int { return s.Depth.In * s.Height.In * s.Width.In }

// Outputs returns how many elements the output of a volume has.
func (s *Pool3DShape) Outputs() int { return s.Depth.Out * s.Height.Out * s.Width.Out }

// A box is the part of a volume behind one output element.
type box struct{ front, back, top, bottom, left, right int }

func (w *box) count() int { return (w.back - w.front) * (w.bottom - w.top) * (w.right - w.left) }

// box returns the window of output element at of a volume.
func (s *Pool3DShape) box(at int) (w box) {
	row := at / s.Width.Out
	w.front, w.back = s.Depth.bounds(row / s.Height.Out)
	w.top, w.bottom = s.Height.bounds(row % s.Height.Out)
	w.left, w.right = s.Width.bounds(at % s.Width.Out)
	return w
}

// MaxPool3D writes the largest element of each window, NaN if there is one, 0 for an empty window. Of windows in a row it first finds the largest
// elements of columns, so line holds Width.In elements.
func MaxPool3D[T tensor.Float](s *Pool3DShape, volumes int, out, x, line []T) {
	line = line[:s.Width.In]
	for v := range volumes {
		volume, to := x[v*s.inSize():][:s.inSize()], out[v*s.Outputs():][:s.Outputs()]
		for od := range s.Depth.Out {
			front, back := s.Depth.bounds(od)
			for oy := range s.Height.Out {
				top, bottom := s.Height.bounds(oy)
				row := to[(od*s.Height.Out+oy)*s.Width.Out:][:s.Width.Out]
				if front == back || top == bottom {
					clear(row)
					continue
				}
				copy(line, volume[(front*s.Height.In+top)*s.Width.In:])
				for z := front; z < back; z++ {
					for y := top; y < bottom; y++ {
						if z > front || y > top {
							maxVectors(line, line, volume[(z*s.Height.In+y)*s.Width.In:][:s.Width.In])
						}
					}
				}
				largestOfLine(&s.Width, row, line)
			}
		}
	}
}

// largestOfLine writes the largest element of each window of a line, 0 for an empty window.
func largestOfLine[T tensor.Float](a *PoolAxis, out, line []T) {
	for ox := range out {
		first, end := a.bounds(ox)
		if first == end {
			out[ox] = 0
			continue
		}
		best := line[first]
		for _, v := range line[first+1 : end] {
			best = max(best, v)
		}
		out[ox] = best
	}
}

// MaxPool3DPlaces is MaxPool3D that also writes the place of the element within its volume: the first NaN, or else the first of equals in row-major
// order, -1 for an empty window.
func MaxPool3DPlaces[T tensor.Float](s *Pool3DShape, volumes int, out []T, places []int32, x []T) {
	maxPoolBoxes(s, volumes, out, places, x)
}

// maxPoolBoxes is MaxPool3DPlaces; places may be nil.
func maxPoolBoxes[T tensor.Float](s *Pool3DShape, volumes int, out []T, places []int32, x []T) {
	for v := range volumes {
		volume, first := x[v*s.inSize():][:s.inSize()], v*s.Outputs()
		for at := range s.Outputs() {
			best := largestInBox(s, volume, s.box(at))
			out[first+at] = 0
			if best >= 0 {
				out[first+at] = volume[best]
			}
			if places != nil {
				places[first+at] = int32(best)
			}
		}
	}
}

// MaxPool3DGrad overwrites dx: each dout goes to the element that was the largest of its window. places is what MaxPool3DPlaces gave, or nil to find the
// elements again in x; with places, x may be nil. Places outside of a volume count as empty windows.
func MaxPool3DGrad[T tensor.Float](s *Pool3DShape, volumes int, dx, x []T, places []int32, dout []T) {
	size := s.inSize()
	clear(dx[:volumes*size])
	for v := range volumes {
		to, g := dx[v*size:][:size], dout[v*s.Outputs():][:s.Outputs()]
		if places != nil {
			for at, place := range places[v*s.Outputs():][:s.Outputs()] {
				if place >= 0 && int(place) < size {
					to[place] += g[at]
				}
			}
			continue
		}
		volume := x[v*size:][:size]
		for at := range g {
			if best := largestInBox(s, volume, s.box(at)); best >= 0 {
				to[best] += g[at]
			}
		}
	}
}

// largestInBox returns the place of the first largest element, or of the first NaN, in a part of a volume, -1 if it is empty.
func largestInBox[T tensor.Float](s *Pool3DShape, volume []T, w box) int {
	if w.count() == 0 {
		return -1
	}
	best := (w.front*s.Height.In+w.top)*s.Width.In + w.left
	top := volume[best]
	for z := w.front; z < w.back; z++ {
		for y := w.top; y < w.bottom; y++ {
			at := (z*s.Height.In + y) * s.Width.In
			for i, v := range volume[at+w.left : at+w.right] {
				if v > top || v != v && top == top {
					top, best = v, at+w.left+i
				}
			}
		}
	}
	return best
}

// AvgPool3D writes the sum of each window over its number of elements with exclusive, over the size of the kernel without; 0 for an empty window.
func AvgPool3D[T tensor.Float](s *Pool3DShape, volumes int, exclusive bool, out, x []T) {
	for v := range volumes {
		volume, to := x[v*s.inSize():][:s.inSize()], out[v*s.Outputs():][:s.Outputs()]
		for at := range to {
			w := s.box(at)
			total := 0.0
			for z := w.front; z < w.back; z++ {
				for y := w.top; y < w.bottom; y++ {
					row := (z*s.Height.In + y) * s.Width.In
					total += sum(volume[row+w.left : row+w.right])
				}
			}
			to[at] = T(total / s.divisor(&w, exclusive))
		}
	}
}

// AvgPool3DGrad overwrites dx: each dout is divided as in AvgPool3D and added to all elements of its window.
func AvgPool3DGrad[T tensor.Float](s *Pool3DShape, volumes int, exclusive bool, dx, dout []T) {
	clear(dx[:volumes*s.inSize()])
	for v := range volumes {
		to, g := dx[v*s.inSize():][:s.inSize()], dout[v*s.Outputs():][:s.Outputs()]
		for at := range g {
			w := s.box(at)
			share := T(float64(g[at]) / s.divisor(&w, exclusive))
			for z := w.front; z < w.back; z++ {
				for y := w.top; y < w.bottom; y++ {
					row := (z*s.Height.In + y) * s.Width.In
					for i := row + w.left; i < row+w.right; i++ {
						to[i] += share
					}
				}
			}
		}
	}
}

// divisor returns the divisor of the sum of a window, at least 1.
func (s *Pool3DShape) divisor(w *box, exclusive bool) float64 {
	if exclusive || s.Width.Adaptive {
		return float64(max(w.count(), 1))
	}
	return float64(s.Depth.Kernel * s.Height.Kernel * s.Width.Kernel)
}
