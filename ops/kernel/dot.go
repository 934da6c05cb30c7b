package kernel

import "github.com/edl-go/edl/tensor"

// DotRows computes the inner products of rows of x and y: out[i] is the sum of x*y over row i, for rows [from, to).
func DotRows[T tensor.Float](out, x, y []T, width, from, to int) {
	for i := from; i < to; i++ {
		out[i] = T(sumProduct(x[i*width:(i+1)*width], y[i*width:(i+1)*width]))
	}
}

// DotRowsGrad computes the gradient of one operand of DotRows from the other: dx[i] = dout[i]*y[i], for rows [from, to).
func DotRowsGrad[T tensor.Float](dx, y, dout []T, width, from, to int) {
	for i := from; i < to; i++ {
		row := y[i*width : (i+1)*width]
		Scale(dx[i*width:(i+1)*width], row, dout[i], 0, true)
	}
}
