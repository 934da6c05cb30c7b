package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// A Resampling says of each position along an axis of the output from which positions of the input it is computed: it is the sum of Taps positions, each times
// its weight. Build one with a function New...Resampling. It is immutable.
type Resampling[T tensor.Float] struct {
	In, Out, Taps int
	index         []int32 // Taps for each position of the output, within [0, In)
	weight        []T
}

func newResampling[T tensor.Float](in, out, taps int) *Resampling[T] {
	return &Resampling[T]{In: in, Out: out, Taps: taps, index: make([]int32, out*taps), weight: make([]T, out*taps)}
}

func (r *Resampling[T]) set(o, tap, index int, weight float64) {
	r.index[o*r.Taps+tap], r.weight[o*r.Taps+tap] = int32(min(max(index, 0), r.In-1)), T(weight)
}

// NewNearestResampling takes the position o*ratio of the input for position o, rounded down, or to nearest with align. Products are of float32, as in Fluid,
// so that the same positions are chosen.
func NewNearestResampling[T tensor.Float](in, out int, ratio float32, align bool) *Resampling[T] {
	r := newResampling[T](in, out, 1)
	for o := range out {
		place := float64(ratio * float32(o))
		if align {
			place += 0.5
		}
		r.set(o, 0, int(place), 1)
	}
	return r
}

// NewLinearResampling interpolates between two positions. Position o lies at o*ratio in the input, or with centred, which takes positions as centres of
// pixels, at (o + 0.5)*ratio - 0.5 and not below 0.
func NewLinearResampling[T tensor.Float](in, out int, ratio float32, centred bool) *Resampling[T] {
	r := newResampling[T](in, out, 2)
	for o := range out {
		place := float64(ratio * float32(o))
		if centred {
			place = max(float64(ratio)*(float64(o)+0.5)-0.5, 0)
		}
		first := min(int(place), in-1)
		share := float64(float32(place) - float32(first))
		r.set(o, 0, first, 1-share)
		r.set(o, 1, first+1, share)
	}
	return r
}

// NewCubicResampling interpolates between four positions with the cubic convolution of Keys (1981), a = -0.75. Position o lies at o*ratio in the input with
// align, else at (o + 0.5)*ratio - 0.5. Positions beyond the border are those at the border.
func NewCubicResampling[T tensor.Float](in, out int, ratio float32, align bool) *Resampling[T] {
	const a = -0.75
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	r := newResampling[T](in, out, 4)
	for o := range out {
		place := float64(ratio) * float64(o)
		if !align {
			place = float64(ratio)*(float64(o)+0.5) - 0.5
		}
		first := math.Floor(place)
		t := place - first
		for tap, weight := range [4]float64{far(t + 1), near(t), near(1 - t), far(2 - t)} {
			r.set(o, tap, int(first)-1+tap, weight)
		}
	}
	return r
}

// Resample3D resamples volumes [Depth.In, Height.In, Width.In] along their axes, the width first. work holds ResampleWorkspace elements.
func Resample3D[T tensor.Float](depth, height, width *Resampling[T], volumes int, out, x, work []T) {
	rows := depth.In * height.In
	for v := range volumes {
		in, to := x[v*rows*width.In:][:rows*width.In], out[v*depth.Out*height.Out*width.Out:][:depth.Out*height.Out*width.Out]
		for row := range rows {
			width.spread(work[row*width.Out:][:width.Out], in[row*width.In:][:width.In])
		}
		for od := range depth.Out {
			for oy := range height.Out {
				line := to[(od*height.Out+oy)*width.Out:][:width.Out]
				for tap := range depth.Taps * height.Taps {
					row, weight := source(depth, height, od, oy, tap)
					from := work[row*width.Out:][:width.Out]
					switch {
					case tap > 0:
						Axpy(line, from, weight)
					case weight == 1:
						copy(line, from)
					default:
						mulScalar(line, from, weight)
					}
				}
			}
		}
	}
}

// source returns a row of the input behind row oy of slice od of the output, and its weight.
func source[T tensor.Float](depth, height *Resampling[T], od, oy, tap int) (row int, weight T) {
	d, h := od*depth.Taps+tap/height.Taps, oy*height.Taps+tap%height.Taps
	return int(depth.index[d])*height.In + int(height.index[h]), depth.weight[d] * height.weight[h]
}

// spread resamples one line.
func (r *Resampling[T]) spread(out, x []T) {
	index, weight := r.index, r.weight
	switch r.Taps {
	case 1:
		for o, i := range index[:len(out)] {
			out[o] = x[i]
		}
	case 2:
		for o := range out {
			out[o] = T(x[index[2*o]]*weight[2*o]) + T(x[index[2*o+1]]*weight[2*o+1])
		}
	default:
		for o := range out {
			total := T(0)
			for tap := o * r.Taps; tap < (o+1)*r.Taps; tap++ {
				total += T(x[index[tap]] * weight[tap])
			}
			out[o] = total
		}
	}
}

// ResampleWorkspace returns how many elements of work Resample3D and its gradient need.
func ResampleWorkspace[T tensor.Float](depth, height, width *Resampling[T]) int {
	return depth.In * height.In * width.Out
}

// Resample3DGrad overwrites dx with the gradient of Resample3D: each element of dout gives dx, at the positions that it is computed from, its share by weight.
func Resample3DGrad[T tensor.Float](depth, height, width *Resampling[T], volumes int, dx, dout, work []T) {
	rows := depth.In * height.In
	work = work[:rows*width.Out]
	clear(dx[:volumes*rows*width.In])
	for v := range volumes {
		to, g := dx[v*rows*width.In:][:rows*width.In], dout[v*depth.Out*height.Out*width.Out:][:depth.Out*height.Out*width.Out]
		clear(work)
		for od := range depth.Out {
			for oy := range height.Out {
				line := g[(od*height.Out+oy)*width.Out:][:width.Out]
				for tap := range depth.Taps * height.Taps {
					row, weight := source(depth, height, od, oy, tap)
					Axpy(work[row*width.Out:][:width.Out], line, weight)
				}
			}
		}
		for row := range rows {
			line, from := to[row*width.In:][:width.In], work[row*width.Out:][:width.Out]
			for o, share := range from {
				for tap := o * width.Taps; tap < (o+1)*width.Taps; tap++ {
					line[width.index[tap]] += T(share * width.weight[tap])
				}
			}
		}
	}
}
