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

// LayerNormGrad computes the gradients of LayerNorm from the mean and variance that it wrote. With xhat the normalised x
// and g = dout*scale: dx = (g - mean(g) - xhat*mean(g*xhat))/sqrt(variance+epsilon) per row; dscale = sum(dout*xhat)
// and dbias = sum(dout) over rows, in their order. Any of dx, dscale and dbias may be nil, and scale as in LayerNorm. dx may
// be dout.
func LayerNormGrad[T tensor.Float](dx, dscale, dbias, x, scale, mean, variance, dout []T, rows, width int, epsilon float64) {
	clear(dscale)
	clear(dbias)
	for r := range rows {
		from, g := x[r*width:][:width], dout[r*width:][:width]
		center, inverseStd := mean[r], T(1/math.Sqrt(float64(variance[r])+epsilon))
		if dbias != nil {
			Accumulate(dbias[:width], g)
		}
		if dscale != nil {
			for i := range width {
				dscale[i] += g[i] * (from[i] - center) * inverseStd
			}
		}
		if dx == nil {
			continue
		}
		to := dx[r*width:][:width]
		copy(to, g)
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
