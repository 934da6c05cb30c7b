package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// EighWorkspace returns the elements of memory that Eigh needs for n x n matrices.
func EighWorkspace(n int) int { return 2*n*n + 2*n }

// mostSweeps bounds the rounds of Eigh. Matrices of any size need about ten.
const mostSweeps = 64

// Eigh returns the eigenvalues of a symmetric n x n matrix in ascending order, and its eigenvectors as the columns of a matrix, in the memory of work. It reads one
// triangle of x. It rotates pairs of rows and columns until all but the diagonal is 0 (Jacobi), in an order that does not depend on values. The largest element of a
// column, of equal ones the first, is positive.
func Eigh[T tensor.Float](x []T, n int, upper bool, work []float64) (values, vectors []float64) {
	a, v := work[:n*n], work[n*n:2*n*n]
	values, spare := work[2*n*n:][:n], work[2*n*n+n:][:n]
	total := 0.0
	for i := range n {
		for j := range n {
			row, column := max(i, j), min(i, j)
			if upper {
				row, column = column, row
			}
			a[i*n+j], v[i*n+j] = float64(x[row*n+column]), 0
			total += a[i*n+j] * a[i*n+j]
		}
		v[i*n+i] = 1
	}
	for range mostSweeps {
		beside := 0.0
		for i := range n {
			for j := range i {
				beside += a[i*n+j] * a[i*n+j]
			}
		}
		if !(beside > total*1e-34) {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, v, n, p, q)
			}
		}
	}
	for i := range values {
		values[i] = a[i*n+i]
	}
	for i := range n { // the smallest first
		least := i
		for j := i + 1; j < n; j++ {
			if values[j] < values[least] {
				least = j
			}
		}
		values[i], values[least] = values[least], values[i]
		for k := range n {
			spare[k] = v[k*n+i]
			v[k*n+i], v[k*n+least] = v[k*n+least], spare[k]
		}
	}
	for j := range n {
		best := 0
		for k := 1; k < n; k++ {
			if math.Abs(v[k*n+j]) > math.Abs(v[best*n+j])*(1+1e-9) {
				best = k
			}
		}
		if v[best*n+j] < 0 {
			for k := range n {
				v[k*n+j] = -v[k*n+j]
			}
		}
	}
	return values, v
}

// rotate makes the elements [p, q] and [q, p] of a symmetric matrix 0, and turns the columns of v alike.
func rotate(a, v []float64, n, p, q int) {
	off := a[p*n+q]
	if off == 0 {
		return
	}
	theta := (a[q*n+q] - a[p*n+p]) / (2 * off)
	t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	for k := range n {
		x, y := a[k*n+p], a[k*n+q]
		a[k*n+p], a[k*n+q] = c*x-s*y, s*x+c*y
	}
	for k := range n {
		x, y := a[p*n+k], a[q*n+k]
		a[p*n+k], a[q*n+k] = c*x-s*y, s*x+c*y
		x, y = v[k*n+p], v[k*n+q]
		v[k*n+p], v[k*n+q] = c*x-s*y, s*x+c*y
	}
	a[p*n+q], a[q*n+p] = 0, 0
}

// EighGrad computes the gradient of a symmetric matrix, of which one triangle is read, from those of its eigenvalues and eigenvectors, either of which may be nil for zeros. With
// S[i,j] = (V'*dV)[i,j]/(w[j]-w[i]), 0 for equal eigenvalues, and dw on the diagonal, an element of the triangle has that of V*S*V' and of its mirror image, and the
// others have 0. work has 3*n*n elements.
func EighGrad[T tensor.Float](dx, w, v, dw, dv []T, work []float64, n int, upper bool) {
	s, vectors, product := work[:n*n], work[n*n:2*n*n], work[2*n*n:]
	for i, value := range v[:n*n] {
		vectors[i] = float64(value)
	}
	clear(s)
	if dv != nil {
		for i, value := range dv[:n*n] {
			product[i] = float64(value)
		}
		Multiply(s, vectors, product, n, true, false)
	}
	for i := range n {
		for j := range n {
			gap := float64(w[j]) - float64(w[i])
			if i == j || gap == 0 {
				s[i*n+j] = 0
			} else {
				s[i*n+j] /= gap
			}
		}
		if dw != nil {
			s[i*n+i] = float64(dw[i])
		}
	}
	Multiply(product, vectors, s, n, false, false)
	Multiply(s, product, vectors, n, false, true)
	for i := range n {
		for j := range n {
			switch {
			case i == j:
				dx[i*n+j] = T(s[i*n+j])
			case upper == (i < j):
				dx[i*n+j] = T(s[i*n+j] + s[j*n+i])
			default:
				dx[i*n+j] = 0
			}
		}
	}
}
