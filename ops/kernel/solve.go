package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Solve solves a*out = y, or transpose(a)*out = y, for an n x n matrix a and y of n rows and k columns, by elimination with the largest pivot of each column. work has n*(n+k)
// elements. It reports whether there is one solution: no pivot is 0 or NaN. out may be y.
func Solve[T tensor.Float](out, a, y []T, work []float64, n, k int, transposed bool) bool {
	m, right := work[:n*n], work[n*n:][:n*k]
	for i := range n {
		for j := range n {
			if transposed {
				m[i*n+j] = float64(a[j*n+i])
			} else {
				m[i*n+j] = float64(a[i*n+j])
			}
		}
	}
	for i, v := range y[:n*k] {
		right[i] = float64(v)
	}
	for column := range n {
		best := column
		for row := column + 1; row < n; row++ {
			if math.Abs(m[row*n+column]) > math.Abs(m[best*n+column]) {
				best = row
			}
		}
		pivot := m[best*n+column]
		if !(math.Abs(pivot) > 0) {
			return false
		}
		if best != column {
			swap(m[best*n:][:n], m[column*n:][:n])
			swap(right[best*k:][:k], right[column*k:][:k])
		}
		for row := column + 1; row < n; row++ {
			if factor := m[row*n+column] / pivot; factor != 0 {
				less(m[row*n+column:][:n-column], m[column*n+column:], factor)
				less(right[row*k:][:k], right[column*k:], factor)
			}
		}
	}
	for row := n - 1; row >= 0; row-- {
		own := right[row*k:][:k]
		for later := row + 1; later < n; later++ {
			less(own, right[later*k:], m[row*n+later])
		}
		for i := range own {
			own[i] /= m[row*n+row]
		}
	}
	for i, v := range right {
		out[i] = T(v)
	}
	return true
}

func swap(a, b []float64) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// less subtracts factor*b from a.
func less(a, b []float64, factor float64) {
	for i := range a {
		a[i] -= factor * b[i]
	}
}

// SolveGrad subtracts dy*transpose(out) from dx: the gradient of the matrix of Solve, from that of y, both of n rows and k columns.
func SolveGrad[T tensor.Float](dx, dy, out []T, n, k int) {
	for i := range n {
		for j := range n {
			sum := 0.0
			for c := range k {
				sum += float64(dy[i*k+c]) * float64(out[j*k+c])
			}
			dx[i*n+j] -= T(sum)
		}
	}
}
