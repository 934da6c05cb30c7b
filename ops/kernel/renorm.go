package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// A Renorm says which parts of a tensor of the form [Pre, Extent, Post] have a norm: those of one place of the middle axis.
type Renorm struct {
	Pre, Extent, Post int
	P                 float64 // of the norm, above 0
	Most              float64 // the largest norm
}

// powers returns the sum of |x|**P over part i.
func powers[T tensor.Float](x []T, r Renorm, i int) float64 {
	sum := 0.0
	for pre := range r.Pre {
		for _, v := range x[(pre*r.Extent+i)*r.Post:][:r.Post] {
			switch magnitude := math.Abs(float64(v)); r.P {
			case 1:
				sum += magnitude
			case 2:
				sum += magnitude * magnitude
			default:
				sum += math.Pow(magnitude, r.P)
			}
		}
	}
	return sum
}

// LimitNorms writes the parts from to till-1 of x, each multiplied by Most/norm where its norm is larger than Most. out may be x.
func LimitNorms[T tensor.Float](out, x []T, r Renorm, from, till int) {
	for i := from; i < till; i++ {
		factor, norm := 1.0, math.Pow(powers(x, r, i), 1/r.P)
		if norm > r.Most {
			factor = r.Most / norm
		}
		for pre := range r.Pre {
			at := (pre*r.Extent + i) * r.Post
			for k, v := range x[at:][:r.Post] {
				out[at+k] = T(float64(v) * factor)
			}
		}
	}
}

// LimitNormsGrad computes the gradients of the parts from to till-1 of x. |x|**(P-1) of 0 has the sign of a positive number, as in Fluid.
func LimitNormsGrad[T tensor.Float](dx, x, dout []T, r Renorm, from, till int) {
	for i := from; i < till; i++ {
		sum := powers(x, r, i)
		norm, slope := math.Pow(sum, 1/r.P), 0.0
		factor := 1.0
		if norm > r.Most {
			factor = r.Most / norm
			for pre := range r.Pre {
				at := (pre*r.Extent + i) * r.Post
				for k, v := range x[at:][:r.Post] {
					slope -= float64(v) * float64(dout[at+k])
				}
			}
			slope *= factor / sum
		}
		for pre := range r.Pre {
			at := (pre*r.Extent + i) * r.Post
			for k, v := range x[at:][:r.Post] {
				g := float64(dout[at+k]) * factor
				if slope != 0 {
					power := math.Pow(math.Abs(float64(v)), r.P-1)
					if v < 0 {
						power = -power
					}
					g += slope * power
				}
				dx[at+k] = T(g)
			}
		}
	}
}
