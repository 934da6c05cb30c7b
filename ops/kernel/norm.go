package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The batch normalisations see their arrays as [n, c, hw]: NCHW with both spatial axes merged, or hw 1 for [n, c]. Each of
// the c channels is normalised over its n*hw elements, at least one. scale, bias and the statistics hold c
// elements. Variances are those of the population (divided by n*hw). A call computes the channels [from, to) alone, and is given the whole of
// every slice.

// BatchNormInfer normalises by given statistics. out may be x.
func BatchNormInfer[T tensor.Float](out, x, scale, bias, mean, variance []T, n, c, hw, from, to int, epsilon float64) {
	for ch := from; ch < to; ch++ {
		inverseStd := 1 / math.Sqrt(float64(variance[ch])+epsilon)
		normaliseChannel(out, x, ch, n, c, hw, float64(mean[ch]), inverseStd, scale[ch], bias[ch])
	}
}

// normaliseChannel writes out = (x-mean)*(inverseStd*scale) + bias for channel ch.
func normaliseChannel[T tensor.Float](out, x []T, ch, n, c, hw int, mean, inverseStd float64, scale, bias T) {
	center, factor := T(mean), T(inverseStd*float64(scale))
	for i := range n {
		from := x[(i*c+ch)*hw:][:hw]
		to := out[(i*c+ch)*hw:][:hw]
		if v := vectorsFor[T](hw); v != nil {
			v.Normalise(singles(to), singles(from), float32(center), float32(factor), float32(bias))
			continue
		}
		for j := range to {
			to[j] = T((from[j]-center)*factor) + bias
		}
	}
}

// BatchNormInferGrad computes the gradients of BatchNormInfer, in which the statistics are constants (use_global_stats):
// dx = dout*scale/sqrt(variance+epsilon), dscale and dbias as in BatchNormGradJoin. Any of the three may be nil; dx may be dout.
func BatchNormInferGrad[T tensor.Float](dx, dscale, dbias, x, scale, mean, variance, dout []T, n, c, hw, from, to int, epsilon float64) {
	for ch := from; ch < to; ch++ {
		inverseStd := 1 / math.Sqrt(float64(variance[ch])+epsilon)
		channelGradients(dscale, dbias, x, dout, ch, n, c, hw, float64(mean[ch]), inverseStd)
		if dx == nil {
			continue
		}
		factor := T(inverseStd * float64(scale[ch]))
		for i := range n {
			mulScalar(dx[(i*c+ch)*hw:][:hw], dout[(i*c+ch)*hw:][:hw], factor)
		}
	}
}

// channelGradients returns the gradients of bias and scale of channel ch, and stores them where that is wanted.
func channelGradients[T tensor.Float](dscale, dbias, x, dout []T, ch, n, c, hw int, mean, inverseStd float64) (gradBias, gradScale float64) {
	for i := range n {
		at := (i*c + ch) * hw
		gradBias += sum(dout[at:][:hw])
		gradScale += sumCentredProduct(dout[at:][:hw], x[at:][:hw], mean)
	}
	gradScale *= inverseStd
	if dbias != nil {
		dbias[ch] = T(gradBias)
	}
	if dscale != nil {
		dscale[ch] = T(gradScale)
	}
	return gradBias, gradScale
}

// sumCentredProduct adds g[i]*(x[i]-center) in four interleaved lanes of float64.
func sumCentredProduct[T tensor.Float](g, x []T, center float64) float64 {
	x = x[:len(g)]
	if v := vectorsFor[T](len(g)); v != nil {
		return v.SumCentredProduct(singles(g), singles(x), center)
	}
	var lanes [4]float64
	for i := range g {
		lanes[i%4] += float64(float64(g[i]) * (float64(x[i]) - center))
	}
	return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

// AddGradChannels is the dy of AddGrad for elements [from, to) of dy, with the same bits. It overwrites them with the sum of dout, seen as [pre, n,
// post], over pre and post. It does not touch the rest of dy.
func AddGradChannels[T tensor.Float](dy, dout []T, pre, n, post, from, to int) {
	clear(dy[from:to])
	for p := range pre {
		if post == 1 {
			Accumulate(dy[from:to], dout[p*n+from:][:to-from])
			continue
		}
		addSums(dy[from:to], dout[(p*n+from)*post:][:(to-from)*post], post)
	}
}

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
