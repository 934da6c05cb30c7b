package kernel

import "github.com/edl-go/edl/tensor"

// LeastSquares solves a*out = y as well as it can, for an m x n matrix of which SVD has returned the vectors and values, and y of columns columns. Values of at most rcond times the largest count as 0.
// It returns how many others there are. room has n elements.
func LeastSquares[T tensor.Float](out, y []T, left, values, right, room []float64, rcond float64, m, n, columns int) (rank int) {
	for rank < len(values) && values[rank] > 0 && values[rank] > rcond*values[0] {
		rank++
	}
	for c := range columns {
		sums := room[:n]
		clear(sums)
		for k := range rank {
			along := 0.0
			for i := range m {
				along += left[k*m+i] * float64(y[i*columns+c])
			}
			along /= values[k]
			for j := range sums {
				sums[j] += along * right[k*n+j]
			}
		}
		for j, v := range sums {
			out[j*columns+c] = T(v)
		}
	}
	return rank
}

// SquaredErrors writes the sum of squares of each column of a*x - y, for an m x n matrix a.
func SquaredErrors[T tensor.Float](out, a, x, y []T, m, n, columns int) {
	for c := range columns {
		total := 0.0
		for i := range m {
			d := -float64(y[i*columns+c])
			for j := range n {
				d += float64(a[i*n+j]) * float64(x[j*columns+c])
			}
			total += d * d
		}
		out[c] = T(total)
	}
}
