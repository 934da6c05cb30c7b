package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// CVM copies a row and takes the logarithms of the numbers of shows and clicks that it begins with: y = log(show+1), log(click+1) - log(show+1), x[2:]...
func CVM[T tensor.Float](y, x []T) {
	show := T(math.Log1p(float64(x[0])))
	copy(y[2:], x[2:])
	y[0], y[1] = show, T(math.Log1p(float64(x[1])))-show
}
