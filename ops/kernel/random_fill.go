package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The random fills set out[i] to a number that depends only on seed, stream and firstIndex+i, the element's index in the
// whole array: a slice that knows where it begins gets the numbers that it has in the whole. Values of float32 are
// those of float64 rounded.

// uniform returns the uniform number of an element in the open interval (0, 1): a multiple of 2^-52 plus 2^-53, so that
// neither end occurs and the distribution is symmetric around 1/2.
func uniform(seed int64, stream, index uint64) float64 {
	return (float64(random64(seed, stream, index)>>12) + 0.5) * 0x1p-52
}

// UniformFill draws uniformly between low and high (Fluid's uniform_random). Rounding may give the ends themselves.
func UniformFill[T tensor.Float](out []T, seed int64, stream, firstIndex uint64, low, high float64) {
	for i := range out {
		out[i] = T(low + (high-low)*uniform(seed, stream, firstIndex+uint64(i)))
	}
}

// GaussianFill draws from the normal distribution by its inverse cumulative distribution (Fluid's gaussian_random).
func GaussianFill[T tensor.Float](out []T, seed int64, stream, firstIndex uint64, mean, std float64) {
	for i := range out {
		out[i] = T(mean + std*normalQuantile(uniform(seed, stream, firstIndex+uint64(i))))
	}
}

// TruncatedGaussianFill draws from the normal distribution limited to two standard deviations around its mean (Fluid's
// truncated_gaussian_random).
func TruncatedGaussianFill[T tensor.Float](out []T, seed int64, stream, firstIndex uint64, mean, std float64) {
	tail := math.Erfc(math.Sqrt2) / 2 // the probability below -2 standard deviations
	for i := range out {
		u := uniform(seed, stream, firstIndex+uint64(i))
		out[i] = T(mean + std*normalQuantile(tail+(1-2*tail)*u))
	}
}

// normalQuantile is the inverse of the standard normal distribution function for p in (0, 1).
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// DropoutMask sets out[i] to 0 with the given probability, else to 1.
func DropoutMask[T tensor.Float](out []T, probability float64, seed int64, stream, firstIndex uint64) {
	for i := range out {
		out[i] = 1
		if uniform(seed, stream, firstIndex+uint64(i)) < probability {
			out[i] = 0
		}
	}
}
