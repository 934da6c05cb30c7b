package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// QRWorkspace returns the elements of memory that QR needs for m x n matrices and columns columns of the orthogonal factor, and QRGrad for min(m, n).
func QRWorkspace(m, n, columns int) int {
	k := min(m, n)
	return max(m*n+k+m*columns, k*k+m*k+k)
}

// QR returns the factors of an m x n matrix in the memory of work: q of m rows and columns columns (none, min(m, n) or m), which are orthogonal and of length 1, and r, of
// which the first rows of n columns count up to the diagonal. It reflects column after column (Householder), so the sign of a diagonal element of r is against that of the
// element that it replaces, as in LAPACK.
func QR[T tensor.Float](x []T, m, n, columns int, work []float64) (q, r []float64) {
	r, work = work[:m*n], work[m*n:]
	count := min(m, n)
	taus, q := work[:count], work[count:][:m*columns]
	for i, v := range x[:m*n] {
		r[i] = float64(v)
	}
	for k := range count { // below the diagonal stay the reflectors
		tail, head := 0.0, r[k*n+k]
		for i := k + 1; i < m; i++ {
			tail += r[i*n+k] * r[i*n+k]
		}
		if taus[k] = 0; tail == 0 {
			continue
		}
		length := -math.Copysign(math.Sqrt(head*head+tail), head)
		for i := k + 1; i < m; i++ {
			r[i*n+k] /= head - length
		}
		taus[k] = (length - head) / length
		r[k*n+k] = length
		reflect(r, r, taus[k], m, n, n, k, k+1)
	}
	clear(q)
	for i := range min(m, columns) {
		q[i*columns+i] = 1
	}
	for k := count - 1; k >= 0 && columns > 0; k-- {
		reflect(q, r, taus[k], m, n, columns, k, 0)
	}
	return q, r
}

// reflect applies reflector k, which lies below the diagonal of r, to the columns of a from first.
func reflect(a, r []float64, tau float64, m, n, columns, k, first int) {
	for c := first; c < columns; c++ {
		sum := a[k*columns+c]
		for i := k + 1; i < m; i++ {
			sum += r[i*n+k] * a[i*columns+c]
		}
		sum *= tau
		a[k*columns+c] -= sum
		for i := k + 1; i < m; i++ {
			a[i*columns+c] -= sum * r[i*n+k]
		}
	}
}

// QRGrad computes the gradient of an m x n matrix from its factors q [m, k] and r [k, n], k = min(m, n), and their gradients, either of which may be nil for zeros. Of m >= n
// it is (dq + q*L)*inverse(transpose(r)), with L the lower triangle of r*transpose(dr) - transpose(dq)*q and its mirror image. The columns behind a square have q*dr, and what q
// does to them counts for the square. It reports whether r has an inverse.
func QRGrad[T tensor.Float](dx, q, r, dq, dr []T, m, n int, work []float64) bool {
	k := min(m, n)
	l, b := work[:k*k], work[k*k:][:m*k]
	at := func(list []T, i int) float64 {
		if list == nil {
			return 0
		}
		return float64(list[i])
	}
	for i := range m { // b = dq, and of columns behind the square q*r*transpose(dr)
		for j := range k {
			b[i*k+j] = at(dq, i*k+j)
		}
		for c := k; c < n; c++ {
			value, grad := 0.0, 0.0
			for j := range k {
				value += float64(q[i*k+j]) * float64(r[j*n+c])
				grad += float64(q[i*k+j]) * at(dr, j*n+c)
			}
			for j := range k {
				b[i*k+j] += value * at(dr, j*n+c)
			}
			dx[i*n+c] = T(grad)
		}
	}
	for i := range k {
		for j := range i + 1 {
			sum := 0.0
			for c := i; c < k; c++ {
				sum += float64(r[i*n+c]) * at(dr, j*n+c)
			}
			for c := range m {
				sum -= b[c*k+i] * float64(q[c*k+j])
			}
			l[i*k+j], l[j*k+i] = sum, sum
		}
	}
	row := work[k*k+m*k:][:k]
	for i := range m {
		for j := range k {
			row[j] = b[i*k+j]
			for c := range k {
				row[j] += float64(q[i*k+c]) * l[c*k+j]
			}
		}
		for j := k - 1; j >= 0; j-- { // x*transpose(r) = row
			for c := j + 1; c < k; c++ {
				row[j] -= float64(r[j*n+c]) * row[c]
			}
			pivot := float64(r[j*n+j])
			if !(math.Abs(pivot) > 0) {
				return false
			}
			row[j] /= pivot
			dx[i*n+j] = T(row[j])
		}
	}
	return true
}

// LogDeterminant returns the sign of the determinant of an n x n matrix and the logarithm of its magnitude: 0 and minus infinity for a singular one. work has n*n elements.
func LogDeterminant[T tensor.Float](x []T, work []float64, n int) (sign, log float64) {
	for i, v := range x[:n*n] {
		work[i] = float64(v)
	}
	sign = 1
	for column := range n {
		best := column
		for row := column + 1; row < n; row++ {
			if math.Abs(work[row*n+column]) > math.Abs(work[best*n+column]) {
				best = row
			}
		}
		pivot := work[best*n+column]
		if pivot == 0 {
			return 0, math.Inf(-1)
		}
		if best != column {
			sign = -sign
			swap(work[best*n:][:n], work[column*n:][:n])
		}
		sign, log = math.Copysign(sign, sign*pivot), log+math.Log(math.Abs(pivot))
		for row := column + 1; row < n; row++ {
			less(work[row*n+column:][:n-column], work[column*n+column:], work[row*n+column]/pivot)
		}
	}
	return sign, log
}

// A Triangle says which part of a matrix SolveTriangular reads and how.
type Triangle struct {
	Upper      bool
	Transposed bool
	Unit       bool // the diagonal counts as 1
}

// SolveTriangular solves a*out = y for a triangle of an n x n matrix a and y of n rows and k columns. work has n*k elements. It reports whether there is one solution: no
// element of the diagonal is 0 or NaN. out may be y.
func SolveTriangular[T tensor.Float](out, a, y []T, work []float64, n, k int, t Triangle) bool {
	for i, v := range y[:n*k] {
		work[i] = float64(v)
	}
	backwards := t.Upper != t.Transposed
	for step := range n {
		i := step
		if backwards {
			i = n - 1 - step
		}
		own := work[i*k:][:k]
		for before := range step {
			j := before
			if backwards {
				j = n - 1 - before
			}
			at := i*n + j
			if t.Transposed {
				at = j*n + i
			}
			less(own, work[j*k:], float64(a[at]))
		}
		if t.Unit {
			continue
		}
		pivot := float64(a[i*n+i])
		if !(math.Abs(pivot) > 0) {
			return false
		}
		for c := range own {
			own[c] /= pivot
		}
	}
	for i, v := range work[:n*k] {
		out[i] = T(v)
	}
	return true
}

// SolveTriangularGrad subtracts from the triangle of da its gradient, from that of y and the solution, both of n rows and k columns.
func SolveTriangularGrad[T tensor.Float](da, dy, out []T, n, k int, t Triangle) {
	if t.Transposed {
		dy, out = out, dy
	}
	for i := range n {
		for j := range n {
			if t.Upper && j < i || !t.Upper && j > i || t.Unit && i == j {
				continue
			}
			sum := 0.0
			for c := range k {
				sum += float64(dy[i*k+c]) * float64(out[j*k+c])
			}
			da[i*n+j] -= T(sum)
		}
	}
}

// CholeskySolveGrad subtracts from the triangle of df the gradient of a Cholesky factor f, from the gradient of the right sides and the solution, both of n rows and k columns.
// work has n*n elements.
func CholeskySolveGrad[T tensor.Float](df, f, dy, out []T, work []float64, n, k int, upper bool) {
	for i := range n {
		for j := range n {
			sum := 0.0
			for c := range k {
				sum += float64(dy[i*k+c])*float64(out[j*k+c]) + float64(out[i*k+c])*float64(dy[j*k+c])
			}
			work[i*n+j] = sum
		}
	}
	for i := range n {
		for j := range n {
			sum := 0.0
			switch {
			case upper && j >= i:
				for c := i; c < n; c++ {
					sum += float64(f[i*n+c]) * work[c*n+j]
				}
			case !upper && j <= i:
				for c := j; c < n; c++ {
					sum += work[i*n+c] * float64(f[c*n+j])
				}
			}
			df[i*n+j] -= T(sum)
		}
	}
}
