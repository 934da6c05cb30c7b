package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// LRNShape describes a local response normalisation (Krizhevsky et al. 2012) of images [Channels, Plane]: channel c of the sums reaches over the Size
// channels from c-(Size-1)/2 on, as far as they exist.
type LRNShape struct {
	Channels, Plane int
	Size            int // at least 1
	K, Alpha, Beta  float64
}

// around returns the channels that the sum of channel c reaches over.
func (s *LRNShape) around(c int) (first, end int) {
	first = c - (s.Size-1)/2
	return max(first, 0), min(first+s.Size, s.Channels)
}

// LRN writes mid = K + Alpha*(sum of the squares of x over neighbouring channels) and out = x*mid**-Beta for so many images. out is not x.
func LRN[T tensor.Float](s *LRNShape, images int, out, mid, x []T) {
	size := s.Channels * s.Plane
	for i := range images {
		in, to, m := x[i*size:][:size], out[i*size:][:size], mid[i*size:][:size]
		Square(to, in)
		for c := range s.Channels {
			row := m[c*s.Plane:][:s.Plane]
			clear(row)
			first, end := s.around(c)
			for n := first; n < end; n++ {
				Accumulate(row, to[n*s.Plane:][:s.Plane])
			}
			Scale(row, row, T(s.Alpha), T(s.K), true)
		}
		for j := range to {
			to[j] = T(float64(in[j]) * math.Pow(float64(m[j]), -s.Beta))
		}
	}
}

// LRNGrad computes the gradient of LRN: dx = dout*mid**-Beta - 2*Alpha*Beta*x*(sum of dout*out/mid over the channels whose sums reach over this one). dx is no
// other slice. work holds Channels*Plane elements.
func LRNGrad[T tensor.Float](s *LRNShape, images int, dx, x, mid, out, dout, work []T) {
	size := s.Channels * s.Plane
	for i := range images {
		to, in, m, o, g := dx[i*size:][:size], x[i*size:][:size], mid[i*size:][:size], out[i*size:][:size], dout[i*size:][:size]
		mulVectors(work, g, o)
		divVectors(work, work, m)
		clear(to)
		for c := range s.Channels {
			first, end := s.around(c)
			for n := first; n < end; n++ {
				Accumulate(to[n*s.Plane:][:s.Plane], work[c*s.Plane:][:s.Plane])
			}
		}
		factor := T(-2 * s.Alpha * s.Beta)
		for j := range to {
			to[j] = to[j]*in[j]*factor + T(float64(g[j])*math.Pow(float64(m[j]), -s.Beta))
		}
	}
}
