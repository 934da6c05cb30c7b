package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// BatchNormGrad computes the gradients of BatchNormTrain from the statistics that it saved. With xhat =
// (x-savedMean)*savedInverseStd: dbias = sum(dout), dscale = sum(dout*xhat) and
// dx = scale*savedInverseStd*(dout - dbias/(n*hw) - xhat*dscale/(n*hw)). Any of dx, dscale and dbias may be nil; dx may be
// dout.
func BatchNormGrad[T tensor.Float](dx, dscale, dbias, x, scale, savedMean, savedInverseStd, dout []T, n, c, hw, from, to int) {
	count := float64(n * hw)
	for ch := from; ch < to; ch++ {
		mean, inverseStd := savedMean[ch], savedInverseStd[ch]
		gradBias, gradScale := channelGradients(dscale, dbias, x, dout, ch, n, c, hw, float64(mean), float64(inverseStd))
		if dx == nil {
			continue
		}
		factor := scale[ch] * inverseStd
		meanGrad, meanProduct := T(gradBias/count), T(gradScale/count)
		for i := range n {
			v, g, d := x[(i*c+ch)*hw:][:hw], dout[(i*c+ch)*hw:][:hw], dx[(i*c+ch)*hw:][:hw]
			for j := range d {
				d[j] = factor * (g[j] - meanGrad - (v[j]-mean)*inverseStd*meanProduct)
			}
		}
	}
}

// BatchNormInferGrad computes the gradients of BatchNormInfer, in which the statistics are constants (use_global_stats):
// dx = dout*scale/sqrt(variance+epsilon), dscale and dbias as in BatchNormGrad. Any of the three may be nil; dx may be dout.
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
