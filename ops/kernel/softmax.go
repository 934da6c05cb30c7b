package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Softmax turns each of rows rows of width classes of x into probabilities: exp(x - max) over its sum. out may be x.
// A row that holds NaN or +Inf, or nothing but -Inf, becomes NaN.
func Softmax[T tensor.Float](out, x []T, rows, classes int) {
	for r := range rows {
		softmaxRow(out[r*classes:][:classes], x[r*classes:][:classes])
	}
}

// softmaxRow writes the softmax of one row and returns the logarithm of the sum of exp(x).
func softmaxRow[T tensor.Float](out, x []T) (logSumExp float64) {
	if len(x) == 0 {
		return math.Inf(-1)
	}
	out = out[:len(x)]
	top := float64(maxOf(x))
	total := 0.0
	if v := vectorsOf[T](); v != nil {
		v.Exp(singles(out), singles(x), float32(top))
		total = sum(out)
	} else {
		for i, v := range x {
			e := math.Exp(float64(v) - top)
			total += e
			out[i] = T(e)
		}
	}
	mulScalar(out, out, T(1/total))
	return top + math.Log(total)
}

// maxOf returns the largest of at least one number, NaN when there is one.
func maxOf[T Number](x []T) T {
	if v := vectorsFor[T](len(x)); v != nil {
		whole := len(x) &^ 7
		top := T(v.Largest(singles(x[:whole])))
		for _, v := range x[whole:] {
			top = max(top, v)
		}
		return top
	}
	top := x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	return top
}

// SoftmaxGrad computes dx = out*(dout - sum(dout*out)) for each row; out is what Softmax gave. dx may be dout.
func SoftmaxGrad[T tensor.Float](dx, out, dout []T, rows, classes int) {
	for r := range rows {
		y, g := out[r*classes:][:classes], dout[r*classes:][:classes]
		to := dx[r*classes:][:classes]
		dot := T(sumProduct(g, y))
		if v := vectorsFor[T](classes); v != nil {
			v.SoftmaxGrad(singles(to), singles(y), singles(g), float32(dot))
			continue
		}
		for i := range to {
			to[i] = y[i] * (g[i] - dot)
		}
	}
}
