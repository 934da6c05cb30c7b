package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// philox4x32 is Philox4x32-10, which maps a 128-bit counter (c0 to c3) and a 64-bit key (k0, k1), words least significant
// first, to 128 random bits (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"). It has
// no state: the numbers of any part of an array can be computed without the others, which is what makes a parameter
// start equal whole and sliced.
func philox4x32(c0, c1, c2, c3, k0, k1 uint32) (r0, r1, r2, r3 uint32) {
	const (
		multiplier0, multiplier1 = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1             = 0x9E3779B9, 0xBB67AE85
		rounds                   = 10
	)
	for range rounds {
		product0, product1 := multiplier0*uint64(c0), multiplier1*uint64(c2)
		c0, c1 = uint32(product1>>32)^c1^k0, uint32(product1)
		c2, c3 = uint32(product0>>32)^c3^k1, uint32(product0)
		k0 += weyl0
		k1 += weyl1
	}
	return c0, c1, c2, c3
}

// random64 returns the 64 random bits of element index of a stream. The key is the seed. The upper half of the counter is the stream and the lower
// half is index/2, so streams of one seed never overlap. The first word pair of a block belongs to the even index, the second to the odd one.
func random64(seed int64, stream, index uint64) uint64 {
	block, key := index>>1, uint64(seed)
	r0, r1, r2, r3 := philox4x32(uint32(block), uint32(block>>32), uint32(stream), uint32(stream>>32), uint32(key), uint32(key>>32))
	if index&1 == 0 {
		return uint64(r1)<<32 | uint64(r0)
	}
	return uint64(r3)<<32 | uint64(r2)
}

// StreamOf derives the number of a random stream from names, such as those of a job and a variable: 64-bit FNV-1a over the length and bytes of each
// name. Equal names give equal streams in every process and release.
func StreamOf(names ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for _, name := range names {
		for n, i := uint64(len(name)), 0; i < 8; i++ {
			hash = (hash ^ n&0xff) * prime
			n >>= 8
		}
		for i := range len(name) {
			hash = (hash ^ uint64(name[i])) * prime
		}
	}
	return hash
}

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

// ExponentialFill draws from the exponential distribution of the given rate by its inverse cumulative distribution (Paddle's exponential).
func ExponentialFill[T tensor.Float](out []T, seed int64, stream, firstIndex uint64, _, rate float64) {
	for i := range out {
		out[i] = T(-math.Log(uniform(seed, stream, firstIndex+uint64(i))) / rate)
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

// DropoutDowngrade computes out = x*mask, the training half of Fluid's dropout_implementation "downgrade_in_infer"; at
// inference out = x*(1-probability), which is Scale. Its gradient is DropoutDowngrade of dout. The slices are of one
// length; out may be x. mask holds 0 and 1, see DropoutMask.
func DropoutDowngrade[T tensor.Float](out, x, mask []T) { mulVectors(out, x, mask) }

// DropoutUpscale computes out = x*mask/(1-probability), the training half of "upscale_in_train"; inference is the
// identity. Its gradient is DropoutUpscale of dout. With probability 1 everything is 0. Slices are as for
// DropoutDowngrade.
func DropoutUpscale[T tensor.Float](out, x, mask []T, probability float64) {
	if probability >= 1 {
		clear(out)
		return
	}
	keep := T(1 - probability)
	x, mask = x[:len(out)], mask[:len(out)]
	for i := range out {
		out[i] = x[i] * mask[i] / keep
	}
}

// AddGumbel computes out[i] = (x[i] + g)/temperature, where g has the standard Gumbel distribution: -log(-log(u)) of a uniform number u. out may be x.
func AddGumbel[T tensor.Float](out, x []T, temperature float64, seed int64, stream, firstIndex uint64) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T((float64(x[i]) - math.Log(-math.Log(uniform(seed, stream, firstIndex+uint64(i))))) / temperature)
	}
}
