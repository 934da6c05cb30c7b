package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Cholesky writes the triangular factor of a symmetric n x n matrix to out: x = L*transpose(L), or transpose(U)*U with upper. An element
// and its mirror image count as their mean. It reports whether the matrix is positive definite.
func Cholesky[T tensor.Float](out, x []T, n int, upper bool) bool {
	at := func(i, j int) int { // of the lower triangle
		if upper {
			i, j = j, i
		}
		return i*n + j
	}
	for i := range n {
		for j := range n {
			if j > i {
				out[at(i, j)] = 0
				continue
			}
			sum := (float64(x[i*n+j]) + float64(x[j*n+i])) / 2
			for k := range j {
				sum -= float64(out[at(i, k)]) * float64(out[at(j, k)])
			}
			if i == j {
				if !(sum > 0) {
					return false
				}
				out[at(i, i)] = T(math.Sqrt(sum))
				continue
			}
			out[at(i, j)] = T(sum / float64(out[at(j, j)]))
		}
	}
	return true
}

// CholeskyGrad computes the gradient of a symmetric matrix from its factor (Murray 2016): with P the lower triangle of transpose(L)*dL, its diagonal halved, and
// S = inverse(transpose(L))*P*inverse(L), dx = (S + transpose(S))/2. work has 3*n*n elements.
func CholeskyGrad[T tensor.Float](dx, out, dout []T, work []float64, n int, upper bool) {
	l, p, s := work[:n*n], work[n*n:2*n*n], work[2*n*n:]
	for i := range n {
		for j := range n {
			from := i*n + j
			if upper {
				from = j*n + i
			}
			l[i*n+j], s[i*n+j] = float64(out[from]), float64(dout[from])
			if j > i {
				s[i*n+j] = 0
			}
		}
	}
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := i; k < n && j <= i; k++ {
				sum += l[k*n+i] * s[k*n+j]
			}
			if i == j {
				sum /= 2
			}
			p[i*n+j] = sum
		}
	}
	for j := range n { // s = inverse(transpose(L)) * p
		for i := n - 1; i >= 0; i-- {
			sum := p[i*n+j]
			for k := i + 1; k < n; k++ {
				sum -= l[k*n+i] * s[k*n+j]
			}
			s[i*n+j] = sum / l[i*n+i]
		}
	}
	for i := range n { // s = s * inverse(L)
		for j := n - 1; j >= 0; j-- {
			sum := s[i*n+j]
			for k := j + 1; k < n; k++ {
				sum -= s[i*n+k] * l[k*n+j]
			}
			s[i*n+j] = sum / l[j*n+j]
		}
	}
	for i := range n {
		for j := range n {
			dx[i*n+j] = T((s[i*n+j] + s[j*n+i]) / 2)
		}
	}
}

// Determinant returns the determinant of an n x n matrix, by elimination with the largest pivot of each column. work has n*n elements.
func Determinant[T tensor.Float](x []T, work []float64, n int) float64 {
	for i, v := range x[:n*n] {
		work[i] = float64(v)
	}
	product := 1.0
	for column := range n {
		best := column
		for row := column + 1; row < n; row++ {
			if math.Abs(work[row*n+column]) > math.Abs(work[best*n+column]) {
				best = row
			}
		}
		pivot := work[best*n+column]
		if pivot == 0 {
			return 0
		}
		if best != column {
			product = -product
			for k := range n {
				work[best*n+k], work[column*n+k] = work[column*n+k], work[best*n+k]
			}
		}
		product *= pivot
		for row := column + 1; row < n; row++ {
			factor := work[row*n+column] / pivot
			for k := column; k < n; k++ {
				work[row*n+k] -= factor * work[column*n+k]
			}
		}
	}
	return product
}

// Multiply computes out = x*y of n x n matrices; transposeX and transposeY take the transposed ones. out is none of the others.
func Multiply(out, x, y []float64, n int, transposeX, transposeY bool) {
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				a, b := i*n+k, k*n+j
				if transposeX {
					a = k*n + i
				}
				if transposeY {
					b = j*n + k
				}
				sum += x[a] * y[b]
			}
			out[i*n+j] = sum
		}
	}
}

// CumProd writes the products of lanes up to each place. out may not be x.
func CumProd[T Number](out, x []T, extent, post, from, to int) {
	for p := from; p < to; p++ {
		for q := range post {
			product := T(1)
			for i := range extent {
				at := (p*extent+i)*post + q
				product *= x[at]
				out[at] = product
			}
		}
	}
}

// CumProdGrad computes dx[i] = sum over j >= i of dout[j] times the product of x[0] to x[j] without x[i].
func CumProdGrad[T tensor.Float](dx, x, dout []T, extent, post, from, to int) {
	for p := from; p < to; p++ {
		for q := range post {
			before := 1.0 // the product of the elements before i
			for i := range extent {
				at := (p*extent+i)*post + q
				sum, product := 0.0, before
				for j := i; j < extent && product != 0; j++ {
					place := (p*extent+j)*post + q
					if j > i {
						product *= float64(x[place])
					}
					sum += float64(dout[place]) * product
				}
				dx[at] = T(sum)
				before *= float64(x[at])
			}
		}
	}
}
