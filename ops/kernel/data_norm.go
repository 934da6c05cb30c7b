package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// DataNormStatistics computes mean = sum/size and scale = sqrt(size/square) for each column.
func DataNormStatistics[T tensor.Float](mean, scale, size, sum, square []T) {
	for i := range mean {
		mean[i] = sum[i] / size[i]
		scale[i] = T(math.Sqrt(float64(size[i] / square[i])))
	}
}

// DataNorm computes y = (x - mean)*scale for one row.
func DataNorm[T tensor.Float](y, x, mean, scale []T) {
	for i := range y {
		y[i] = (x[i] - mean[i]) * scale[i]
	}
}

// DataNormSums computes for the columns [from, to) of x, a matrix with as many columns as mean, the sum and the sum of (x - mean)**2 + epsilon, in the order
// of the rows.
func DataNormSums[T tensor.Float](sum, square, x, mean []T, from, to int, epsilon float64) {
	clear(sum[from:to])
	clear(square[from:to])
	columns := len(mean)
	rows := len(x) / max(1, columns)
	for i := range rows {
		row := x[i*columns:][:columns]
		for j := from; j < to; j++ {
			d := row[j] - mean[j]
			sum[j] += row[j]
			square[j] += T(d * d)
		}
	}
	more := T(float64(rows) * epsilon)
	for j := from; j < to; j++ {
		square[j] += more
	}
}

// CVM copies a row and takes the logarithms of the numbers of shows and clicks that it begins with: y = log(show+1), log(click+1) - log(show+1), x[2:]...
func CVM[T tensor.Float](y, x []T) {
	show := T(math.Log1p(float64(x[0])))
	copy(y[2:], x[2:])
	y[0], y[1] = show, T(math.Log1p(float64(x[1])))-show
}
