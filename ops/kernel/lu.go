package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// LU factors an m x n matrix with row exchanges: out has the factor below the diagonal, whose diagonal is 1, and the one from the diagonal on. pivots[i] is the row, from 1, that changed places with
// row i, for each of min(m, n). It returns the first column, from 1, whose pivot is 0, and 0 if none is. work has m*n elements.
func LU[T tensor.Float](out, x []T, pivots []int32, work []float64, m, n int) (zero int32) {
	for i, v := range x[:m*n] {
		work[i] = float64(v)
	}
	for column := range min(m, n) {
		best := column
		for row := column + 1; row < m; row++ {
			if math.Abs(work[row*n+column]) > math.Abs(work[best*n+column]) {
				best = row
			}
		}
		pivots[column] = int32(best + 1)
		pivot := work[best*n+column]
		if pivot == 0 {
			if zero == 0 {
				zero = int32(column + 1)
			}
			continue
		}
		if best != column {
			swap(work[best*n:][:n], work[column*n:][:n])
		}
		for row := column + 1; row < m; row++ {
			factor := work[row*n+column] / pivot
			work[row*n+column] = factor
			less(work[row*n+column+1:][:n-column-1], work[column*n+column+1:][:n-column-1], factor)
		}
	}
	for i, v := range work[:m*n] {
		out[i] = T(v)
	}
	return zero
}

// LURows writes which row of the matrix each row of the product of its factors is. It reports whether all pivots are rows.
func LURows(rows []int, pivots []int32) bool {
	for i := range rows {
		rows[i] = i
	}
	for i, pivot := range pivots {
		if pivot < 1 || int(pivot) > len(rows) {
			return false
		}
		rows[i], rows[pivot-1] = rows[pivot-1], rows[i]
	}
	return true
}

// LUGrad computes the gradient of an m x n matrix from its factors, in the form that LU writes, their gradient in the same form, and the rows of LURows. With k the smaller extent, L and U the first k columns
// and rows of the factors, it is inverse(transpose(L))*(the lower triangle of transpose(L)*dL - dU2*transpose(U2) + the upper one of dU*transpose(U) - transpose(L2)*dL2)*inverse(transpose(U)): L2 and
// U2 are what is below and behind the square. Those get dL2*inverse(transpose(U)) and inverse(transpose(L))*dU2. work has k*k elements. It reports whether U has an inverse.
func LUGrad[T tensor.Float](dx, factors, d []T, rows []int, work []float64, m, n int) bool {
	k := min(m, n)
	at := func(i, j int) float64 { return float64(factors[i*n+j]) }
	grad := func(i, j int) float64 { return float64(d[i*n+j]) }
	for i := range k {
		for j := range k {
			sum := 0.0
			if i > j { // L is 1 on the diagonal and 0 above
				sum = grad(i, j)
				for r := i + 1; r < k; r++ {
					sum += at(r, i) * grad(r, j)
				}
				for c := k; c < n; c++ {
					sum -= grad(i, c) * at(j, c)
				}
			} else {
				for c := j; c < k; c++ {
					sum += grad(i, c) * at(j, c)
				}
				for r := k; r < m; r++ {
					sum -= at(r, i) * grad(r, j)
				}
			}
			work[i*k+j] = sum
		}
	}
	for i := range k { // times inverse(transpose(U)), which is lower
		if !divideByUpper(work[i*k:][:k], factors, n) {
			return false
		}
	}
	for j := range k { // inverse(transpose(L)), which is upper, times the square
		for i := k - 1; i >= 0; i-- {
			sum := work[i*k+j]
			for r := i + 1; r < k; r++ {
				sum -= at(r, i) * work[r*k+j]
			}
			work[i*k+j] = sum
		}
	}
	for i := range k {
		for j := range k {
			dx[rows[i]*n+j] = T(work[i*k+j])
		}
	}
	row := work[:k]
	for i := k; i < m; i++ {
		for j := range row {
			row[j] = grad(i, j)
		}
		divideByUpper(row, factors, n)
		for j, v := range row {
			dx[rows[i]*n+j] = T(v)
		}
	}
	for j := k; j < n; j++ {
		for i := k - 1; i >= 0; i-- {
			sum := grad(i, j)
			for r := i + 1; r < k; r++ {
				sum -= at(r, i) * row[r]
			}
			row[i] = sum
			dx[rows[i]*n+j] = T(sum)
		}
	}
	return true
}

// divideByUpper solves y*transpose(u) = row for the triangle u from the diagonal of factors on, in place. It reports whether there is one solution.
func divideByUpper[T tensor.Float](row []float64, factors []T, n int) bool {
	for j := len(row) - 1; j >= 0; j-- {
		for c := j + 1; c < len(row); c++ {
			row[j] -= row[c] * float64(factors[j*n+c])
		}
		pivot := float64(factors[j*n+j])
		if !(math.Abs(pivot) > 0) {
			return false
		}
		row[j] /= pivot
	}
	return true
}

// LUParts writes the factors of an m x n matrix apart: lower [m, k] with a diagonal of 1, and upper [k, n], k the smaller extent. Either may be nil.
func LUParts[T tensor.Float](lower, upper, factors []T, m, n int) {
	k := min(m, n)
	for i := range m {
		for j := range n {
			v := factors[i*n+j]
			if lower != nil && j < k {
				switch {
				case j < i:
					lower[i*k+j] = v
				case j == i:
					lower[i*k+j] = 1
				default:
					lower[i*k+j] = 0
				}
			}
			if upper != nil && i < k {
				if upper[i*n+j] = v; j < i {
					upper[i*n+j] = 0
				}
			}
		}
	}
}

// LUPartsGrad puts gradients of both parts together. Either may be nil, for zeros.
func LUPartsGrad[T tensor.Float](dx, lower, upper []T, m, n int) {
	k := min(m, n)
	for i := range m {
		for j := range n {
			switch {
			case j < i && lower != nil:
				dx[i*n+j] = lower[i*k+j]
			case j >= i && upper != nil:
				dx[i*n+j] = upper[i*n+j]
			default:
				dx[i*n+j] = 0
			}
		}
	}
}
