package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// LayerNorm normalises each of rows rows of width elements: out = (x-mean)/sqrt(variance+epsilon)*scale + bias, with the mean and
// population variance of the row, which it writes to mean and variance. scale and bias hold width elements; nil stands
// for ones and zeros. width is at least 1. out may be x.
func LayerNorm[T tensor.Float](out, mean, variance, x, scale, bias []T, rows, width int, epsilon float64) {
	for r := range rows {
		from, to := x[r*width:][:width], out[r*width:][:width]
		m := sum(from) / float64(width)
		v := sumSquaredDeviation(from, m) / float64(width)
		mean[r], variance[r] = T(m), T(v)
		center, inverseStd := T(m), T(1/math.Sqrt(v+epsilon))
		for i := range to {
			to[i] = (from[i] - center) * inverseStd
		}
		if scale != nil {
			mulVectors(to, to, scale)
		}
		if bias != nil {
			addVectors(to, to, bias)
		}
	}
}

// LayerNormGrad computes the gradient of LayerNorm in x from the mean and variance that it wrote. With xhat the normalised x
// and g = dout*scale: dx = (g - mean(g) - xhat*mean(g*xhat))/sqrt(variance+epsilon) per row. scale is as in LayerNorm. dx may be
// dout.
func LayerNormGrad[T tensor.Float](dx, x, scale, mean, variance, dout []T, rows, width int, epsilon float64) {
	for r := range rows {
		from, to := x[r*width:][:width], dx[r*width:][:width]
		center, inverseStd := mean[r], T(1/math.Sqrt(float64(variance[r])+epsilon))
		copy(to, dout[r*width:][:width])
		if scale != nil {
			mulVectors(to, to, scale)
		}
		meanGrad := T(sum(to) / float64(width))
		product := sumCentredProduct(to, from, float64(center)) * float64(inverseStd)
		meanProduct := T(product / float64(width))
		for i := range to {
			to[i] = (to[i] - meanGrad - (from[i]-center)*inverseStd*meanProduct) * inverseStd
		}
	}
}

// LayerNormParamGrad computes the gradients of LayerNorm in scale and bias for the places [first, last) of a row: dscale = sum(dout*xhat) and
// dbias = sum(dout) over rows, in their order. Either may be nil.
func LayerNormParamGrad[T tensor.Float](dscale, dbias, x, mean, variance, dout []T, rows, width, first, last int, epsilon float64) {
	if dbias != nil {
		dbias = dbias[first:last]
		clear(dbias)
	}
	if dscale != nil {
		dscale = dscale[first:last]
		clear(dscale)
	}
	for r := range rows {
		from, g := x[r*width:][first:last], dout[r*width:][first:last]
		if dbias != nil {
			Accumulate(dbias, g)
		}
		center, inverseStd := mean[r], T(1/math.Sqrt(float64(variance[r])+epsilon))
		for i := range dscale {
			dscale[i] += g[i] * (from[i] - center) * inverseStd
		}
	}
}
