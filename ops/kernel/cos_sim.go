package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// CosSim computes the cosine of the angle between x and y, and their lengths.
func CosSim[T tensor.Float](x, y []T) (cos, lengthX, lengthY T) {
	lx, ly := math.Sqrt(sumProduct(x, x)), math.Sqrt(sumProduct(y, y))
	if lx > 0 && ly > 0 {
		cos = T(sumProduct(x, y) / lx / ly)
	}
	return cos, T(lx), T(ly)
}

// CosSimGrad computes dx = dcos*(y/(|x||y|) - cos*x/|x|**2), zeros where a length is 0. With add it adds this to dx.
func CosSimGrad[T tensor.Float](dx, x, y []T, dcos, cos, lengthX, lengthY T, add bool) {
	var a, b T
	if product := lengthX * lengthY; product > 0 {
		a, b = dcos/product, dcos*cos/(lengthX*lengthX)
	}
	for i := range dx {
		v := T(a*y[i]) - T(b*x[i])
		if add {
			v += dx[i]
		}
		dx[i] = v
	}
}
