package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// GroupNormShape describes a group normalisation (Wu and He 2018) of images [n, Groups*Channels, Plane]: each group of Channels neighbouring channels of an
// image is normalised over its Channels*Plane elements, at least one. A row is such a group: row r belongs to image r/Groups. scale and bias hold a number for
// each of the Groups*Channels channels; nil stands for ones and zeros. Variances are those of the population.
type GroupNormShape struct {
	Groups, Channels, Plane int
	Epsilon                 float64
	// Inverse says that the op keeps 1/sqrt(variance+Epsilon) in place of the variance.
	Inverse bool
}

// GroupNorm normalises the rows [from, to): out = (x-mean)/sqrt(variance+Epsilon)*scale + bias. It writes mean and variance of each row, as Inverse says. It is
// given the whole of every slice. out may be x.
func GroupNorm[T tensor.Float](s *GroupNormShape, out, mean, variance, x, scale, bias []T, from, to int) {
	width := s.Channels * s.Plane
	for r := from; r < to; r++ {
		in := x[r*width:][:width]
		m := sum(in) / float64(width)
		v := sumSquaredDeviation(in, m) / float64(width)
		inverseStd := 1 / math.Sqrt(v+s.Epsilon)
		mean[r], variance[r] = T(m), T(v)
		if s.Inverse {
			variance[r] = T(inverseStd)
		}
		first := r % s.Groups * s.Channels
		for ch := range s.Channels {
			factor, shift := inverseStd, T(0)
			if scale != nil {
				factor *= float64(scale[first+ch])
			}
			if bias != nil {
				shift = bias[first+ch]
			}
			normaliseChannel(out, x, r*s.Channels+ch, 1, 0, s.Plane, m, factor, 1, shift)
		}
	}
}

// inverseStd returns 1/sqrt(variance+Epsilon) of a row from what GroupNorm has kept.
func (s *GroupNormShape) inverseStd(kept float64) float64 {
	if s.Inverse {
		return kept
	}
	return 1 / math.Sqrt(kept+s.Epsilon)
}

// GroupNormGrad computes the gradient of GroupNorm in x for the rows [from, to), from the mean and variance that it kept. With xhat the normalised x, g =
// dout*scale and means over the row: dx = (g - mean(g) - xhat*mean(g*xhat))/sqrt(variance+Epsilon). dx is not dout.
func GroupNormGrad[T tensor.Float](s *GroupNormShape, dx, x, scale, mean, variance, dout []T, from, to int) {
	width := s.Channels * s.Plane
	for r := from; r < to; r++ {
		center, inverseStd := float64(mean[r]), s.inverseStd(float64(variance[r]))
		first, total, product := r%s.Groups*s.Channels, 0.0, 0.0
		for ch := range s.Channels {
			at := r*width + ch*s.Plane
			factor := factorOf(scale, first+ch)
			total += factor * sum(dout[at:][:s.Plane])
			product += factor * sumCentredProduct(dout[at:][:s.Plane], x[at:][:s.Plane], center)
		}
		meanGrad, slope := total/float64(width), product*inverseStd*inverseStd/float64(width)
		for ch := range s.Channels {
			at := r*width + ch*s.Plane
			normaliseChannel(dx, x, r*s.Channels+ch, 1, 0, s.Plane, center, -slope*inverseStd, 1, T(-meanGrad*inverseStd))
			Axpy(dx[at:][:s.Plane], dout[at:][:s.Plane], T(factorOf(scale, first+ch)*inverseStd))
		}
	}
}

// factorOf returns number i of scale, 1 where scale is nil.
func factorOf[T tensor.Float](scale []T, i int) float64 {
	if scale == nil {
		return 1
	}
	return float64(scale[i])
}

// GroupNormParamGrad computes the gradients of GroupNorm in scale and bias for the channels [from, to), over all images: dscale = sum(dout*xhat) and
// dbias = sum(dout). Either may be nil.
func GroupNormParamGrad[T tensor.Float](s *GroupNormShape, dscale, dbias, x, mean, variance, dout []T, images, from, to int) {
	all := s.Groups * s.Channels
	for ch := from; ch < to; ch++ {
		gradBias, gradScale := 0.0, 0.0
		for i := range images {
			row, at := i*s.Groups+ch/s.Channels, (i*all+ch)*s.Plane
			g := dout[at:][:s.Plane]
			gradBias += sum(g)
			gradScale += sumCentredProduct(g, x[at:][:s.Plane], float64(mean[row])) * s.inverseStd(float64(variance[row]))
		}
		if dbias != nil {
			dbias[ch] = T(gradBias)
		}
		if dscale != nil {
			dscale[ch] = T(gradScale)
		}
	}
}
