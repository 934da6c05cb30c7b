package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The batch normalisations see their arrays as [n, c, hw]: NCHW with both spatial axes merged, or hw 1 for [n, c]. Each of
// the c channels is normalised over its n*hw elements, of which there is at least one. scale, bias and the statistics hold c
// elements. Variances are those of the population (divided by n*hw). A call computes the channels [from, to) alone, and is given the whole of
// every slice.

// BatchNormTrain normalises by the statistics of the batch: out = (x-mean)*inverseStd*scale + bias with inverseStd =
// 1/sqrt(variance+epsilon). savedMean gets the mean and savedInverseStd the inverse standard deviation, which is what
// Fluid keeps in SavedVariance. runningMean and runningVariance are updated in place: running*momentum +
// batch*(1-momentum). out may be x.
func BatchNormTrain[T tensor.Float](out, savedMean, savedInverseStd, runningMean, runningVariance, x, scale, bias []T,
	n, c, hw, from, to int, momentum, epsilon float64) {
	count := float64(n * hw)
	for ch := from; ch < to; ch++ {
		total := 0.0
		for i := range n {
			total += sum(x[(i*c+ch)*hw:][:hw])
		}
		mean := total / count
		squares := 0.0
		for i := range n {
			squares += sumSquaredDeviation(x[(i*c+ch)*hw:][:hw], mean)
		}
		variance := squares / count
		inverseStd := 1 / math.Sqrt(variance+epsilon)
		savedMean[ch], savedInverseStd[ch] = T(mean), T(inverseStd)
		runningMean[ch] = T(float64(runningMean[ch])*momentum + mean*(1-momentum))
		runningVariance[ch] = T(float64(runningVariance[ch])*momentum + variance*(1-momentum))
		normaliseChannel(out, x, ch, n, c, hw, mean, inverseStd, scale[ch], bias[ch])
	}
}

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
