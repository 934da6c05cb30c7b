package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// KronPlaces returns where the product of element i of x and element j of y stands in the Kronecker product: at ofX[i] + ofY[j]. x and y have equal ranks.
func KronPlaces(x, y []int64) (ofX, ofY []int) {
	places := func(dims, strides []int64) []int {
		all := []int{0}
		for axis, extent := range dims {
			next := make([]int, 0, len(all)*int(extent))
			for _, at := range all {
				for i := range int(extent) {
					next = append(next, at+i*int(strides[axis]))
				}
			}
			all = next
		}
		return all
	}
	strideX, strideY := make([]int64, len(x)), make([]int64, len(x))
	stride := int64(1)
	for axis := len(x) - 1; axis >= 0; axis-- {
		strideY[axis], strideX[axis] = stride, stride*y[axis]
		stride *= x[axis] * y[axis]
	}
	return places(x, strideX), places(y, strideY)
}

// Invert writes the inverse of an n x n matrix to out by elimination with the largest pivot of each column. work has n*n elements. It reports whether there is one: no
// pivot is 0 or NaN.
func Invert[T tensor.Float](out, x []T, work []float64, inverse []float64, n int) bool {
	for i := range n * n {
		work[i], inverse[i] = float64(x[i]), 0
	}
	for i := range n {
		inverse[i*n+i] = 1
	}
	for column := range n {
		best := column
		for row := column + 1; row < n; row++ {
			if math.Abs(work[row*n+column]) > math.Abs(work[best*n+column]) {
				best = row
			}
		}
		pivot := work[best*n+column]
		if !(math.Abs(pivot) > 0) {
			return false
		}
		if best != column {
			for k := range n {
				work[best*n+k], work[column*n+k] = work[column*n+k], work[best*n+k]
				inverse[best*n+k], inverse[column*n+k] = inverse[column*n+k], inverse[best*n+k]
			}
		}
		for k := range n {
			work[column*n+k] /= pivot
			inverse[column*n+k] /= pivot
		}
		for row := range n {
			factor := work[row*n+column]
			if row == column || factor == 0 {
				continue
			}
			for k := range n {
				work[row*n+k] -= factor * work[column*n+k]
				inverse[row*n+k] -= factor * inverse[column*n+k]
			}
		}
	}
	for i, v := range inverse[:n*n] {
		out[i] = T(v)
	}
	return true
}

// InvertGrad computes dx = -out^T dout out^T of an n x n matrix, out being the inverse. work has n*n elements.
func InvertGrad[T tensor.Float](dx, out, dout []T, work []float64, n int) {
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				sum += float64(out[k*n+i]) * float64(dout[k*n+j])
			}
			work[i*n+j] = sum
		}
	}
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				sum += work[i*n+k] * float64(out[j*n+k])
			}
			dx[i*n+j] = T(-sum)
		}
	}
}
