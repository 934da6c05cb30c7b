package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Batch normalization in training goes over images, [c, hw] each, so that the loops before and after it may handle an image while it is in the cache.
// Statistics of single images, [n, 2, c], are joined for each channel in between. Joining means and squared deviations from them loses no accuracy (Chan,
// Golub and LeVeque 1983). All sums are in float64 and have one order. hw is at least 1.

// BatchNormStats is how many numbers a channel has in statistics, [3, c]: the mean, the variance of the population and 1/sqrt(variance+epsilon).
const BatchNormStats = 3

// BatchNormParts computes the statistics of n images: the mean of each channel and the sum of the squared deviations from it.
func BatchNormParts[T tensor.Float](parts []float64, x []T, n, c, hw int) {
	for i := range n {
		means, squares := parts[2*i*c:][:c], parts[(2*i+1)*c:][:c]
		ch := 0
		if v := vectorsFor[T](hw); v != nil {
			for ; ch+4 <= c; ch += 4 {
				channels, mean := singles(x[(i*c+ch)*hw:][:4*hw]), (*[4]float64)(means[ch:])
				mean[0], mean[1], mean[2], mean[3] = v.SumFour(channels[:hw], hw)
				for k := range mean {
					mean[k] /= float64(hw)
				}
				squares[ch], squares[ch+1], squares[ch+2], squares[ch+3] = v.SumFourSquaredDeviations(channels[:hw], hw, mean)
			}
		}
		for ; ch < c; ch++ {
			v := x[(i*c+ch)*hw:][:hw]
			mean := sum(v) / float64(hw)
			means[ch], squares[ch] = mean, sumSquaredDeviation(v, mean)
		}
	}
}

// BatchNormJoin makes the statistics of channels [from, to) from those of n images, at least one.
func BatchNormJoin(stats, parts []float64, n, c, hw, from, to int, epsilon float64) {
	for ch := from; ch < to; ch++ {
		total, squares := 0.0, 0.0
		for i := range n {
			total += parts[2*i*c+ch]
		}
		mean := total / float64(n)
		for i := range n {
			d := parts[2*i*c+ch] - mean
			squares += parts[(2*i+1)*c+ch] + float64(float64(hw)*float64(d*d))
		}
		variance := squares / float64(n*hw)
		stats[ch], stats[c+ch], stats[2*c+ch] = mean, variance, 1/math.Sqrt(variance+epsilon)
	}
}

// BatchNormMove sets savedMean to the mean of channels [from, to) and savedInverseStd to the inverse standard deviation, which Fluid keeps in
// SavedVariance. It updates runningMean and runningVariance in place: running*momentum + batch*(1-momentum).
func BatchNormMove[T tensor.Float](savedMean, savedInverseStd, runningMean, runningVariance []T, stats []float64, c, from, to int, momentum float64) {
	for ch := from; ch < to; ch++ {
		savedMean[ch], savedInverseStd[ch] = T(stats[ch]), T(stats[2*c+ch])
		runningMean[ch] = T(float64(runningMean[ch])*momentum + stats[ch]*(1-momentum))
		runningVariance[ch] = T(float64(runningVariance[ch])*momentum + stats[c+ch]*(1-momentum))
	}
}

// BatchNormImages normalises n images: out = (x-mean)*(inverseStd*scale) + bias. activation is then applied; nil stands for none. out may be x.
func BatchNormImages[T tensor.Float](out, x, scale, bias []T, stats []float64, n, c, hw int, activation func(out, x []T)) {
	step := max(1, finishRun/hw) // channels that stay in the first-level cache
	for i := range n {
		for first := 0; first < c; first += step {
			last := min(first+step, c)
			for ch := first; ch < last; ch++ {
				normaliseChannel(out[i*c*hw:], x[i*c*hw:], ch, 1, c, hw, stats[ch], stats[2*c+ch], scale[ch], bias[ch])
			}
			if activation != nil {
				run := out[(i*c+first)*hw:][:(last-first)*hw]
				activation(run, run)
			}
		}
	}
}

// BatchNormGradParts computes what n images add to the gradients of bias and scale: for each channel sum(dout), and sum(dout*(x-mean)).
func BatchNormGradParts[T tensor.Float](parts []float64, x, dout, savedMean []T, n, c, hw int) {
	for i := range n {
		sums, products := parts[2*i*c:][:c], parts[(2*i+1)*c:][:c]
		ch := 0
		if v := vectorsFor[T](hw); v != nil {
			for ; ch+4 <= c; ch += 4 {
				at, mean := (i*c+ch)*hw, [4]float64{float64(savedMean[ch]), float64(savedMean[ch+1]), float64(savedMean[ch+2]), float64(savedMean[ch+3])}
				g, in := singles(dout[at:][:4*hw]), singles(x[at:][:4*hw])
				sums[ch], sums[ch+1], sums[ch+2], sums[ch+3] = v.SumFour(g[:hw], hw)
				products[ch], products[ch+1], products[ch+2], products[ch+3] = v.SumFourCentredProducts(g[:hw], in, hw, &mean)
			}
		}
		for ; ch < c; ch++ {
			at := (i*c + ch) * hw
			sums[ch], products[ch] = sum(dout[at:][:hw]), sumCentredProduct(dout[at:][:hw], x[at:][:hw], float64(savedMean[ch]))
		}
	}
}

// BatchNormGradJoin makes the gradients of bias and scale, [2, c], for channels [from, to) from the parts of n images. With xhat =
// (x-savedMean)*savedInverseStd, dbias = sum(dout) and dscale = sum(dout*xhat).
func BatchNormGradJoin[T tensor.Float](grads, parts []float64, savedInverseStd []T, n, c, from, to int) {
	for ch := from; ch < to; ch++ {
		sums, products := 0.0, 0.0
		for i := range n {
			sums += parts[2*i*c+ch]
			products += parts[(2*i+1)*c+ch]
		}
		grads[ch], grads[c+ch] = sums, products*float64(savedInverseStd[ch])
	}
}

// BatchNormGradImages computes the gradient of n images of a batch of count numbers for each channel:
// dx = scale*savedInverseStd*(dout - dbias/count - xhat*dscale/count). dx may be dout.
func BatchNormGradImages[T tensor.Float](dx, x, dout, scale, savedMean, savedInverseStd []T, grads []float64, count float64, n, c, hw int) {
	for i := range n {
		for ch := range c {
			at := (i*c + ch) * hw
			normaliseGrad(dx[at:][:hw], x[at:][:hw], dout[at:][:hw], savedMean[ch], savedInverseStd[ch], T(grads[ch]/count), T(grads[c+ch]/count),
				scale[ch]*savedInverseStd[ch])
		}
	}
}

// normaliseGrad computes d = factor*(g - meanGrad - (x-mean)*inverseStd*meanProduct).
func normaliseGrad[T tensor.Float](d, x, g []T, mean, inverseStd, meanGrad, meanProduct, factor T) {
	if v := vectorsFor[T](len(d)); v != nil {
		v.NormaliseGrad(singles(d), singles(x), singles(g), float32(mean), float32(inverseStd), float32(meanGrad), float32(meanProduct), float32(factor))
		return
	}
	for j := range d {
		d[j] = factor * (g[j] - meanGrad - T(T(T(x[j]-mean)*inverseStd)*meanProduct))
	}
}
