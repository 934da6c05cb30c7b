package kernel

import (
	"math"
	"math/bits"

	"github.com/edl-go/edl/tensor"
)

// A square sum is an exact sum of squares of floats: a fixed-point number wide enough for every square of a float64, in
// SquareSumWords integers. Since nothing is rounded before SquareSumValue, elements may be added in any order and partial
// sums of any partition merged in any order: the words, and so the value, are the same. The norm of a parameter that is
// sliced over several servers thus equals that of the whole, bit for bit.
//
// Word i below squareSumDigits is the digit of 2^(32*i) units of 2^-2148, the square of the least subnormal. Every
// function leaves digits in [0, 2^32), the canonical form. The two words after them count infinities and NaNs. All words
// simply add, so an op that sums int64 tensors elementwise merges too, up to 2^20 partial sums at a time.
//
// The zero words are the empty sum.
const (
	SquareSumWords = squareSumDigits + 2

	squareSumDigits   = 134 // 2148 bits of fraction, 2048 of integer, 92 for the count of elements
	squareSumFraction = 2148
	squareSumInfinity = squareSumDigits
	squareSumNaN      = squareSumDigits + 1
	squareSumBatch    = 1 << 30 // elements that fit between two normalisations
)

// SquareSumAdd adds the square of every element of x to words.
func SquareSumAdd[T tensor.Float](words []int64, x []T) {
	w := (*[SquareSumWords]int64)(words)
	for len(x) > 0 {
		batch := x[:min(len(x), squareSumBatch)]
		x = x[len(batch):]
		for _, v := range batch {
			squareSumAddOne(w, float64(v))
		}
		squareSumNormalise(w)
	}
}

// squareSumAddOne adds the 106 bits of the square of a 53-bit mantissa at their place.
func squareSumAddOne(w *[SquareSumWords]int64, v float64) {
	const mantissaBits, exponentMask = 52, 1<<11 - 1
	pattern := math.Float64bits(v)
	mantissa := pattern & (1<<mantissaBits - 1)
	exponent := pattern >> mantissaBits & exponentMask
	switch exponent {
	case exponentMask:
		if mantissa != 0 {
			w[squareSumNaN]++
		} else {
			w[squareSumInfinity]++
		}
		return
	case 0:
		exponent = 1
	default:
		mantissa |= 1 << mantissaBits
	}
	high, low := bits.Mul64(mantissa, mantissa)
	place := 2 * (exponent - 1)
	shift := place & 31
	digit := w[place>>5:][:5]
	top := high<<shift | low>>1>>(63-shift)
	low <<= shift
	digit[0] += int64(low & math.MaxUint32)
	digit[1] += int64(low >> 32)
	digit[2] += int64(top & math.MaxUint32)
	digit[3] += int64(top >> 32)
	digit[4] += int64(high >> 1 >> (63 - shift))
}

// squareSumNormalise brings the digits into canonical form.
func squareSumNormalise(w *[SquareSumWords]int64) {
	carry := int64(0)
	for i := range squareSumDigits {
		v := w[i] + carry
		w[i] = v & math.MaxUint32
		carry = v >> 32
	}
}

// SquareSumMerge adds the sum other to words.
func SquareSumMerge(words, other []int64) {
	w := (*[SquareSumWords]int64)(words)
	for i, v := range other[:SquareSumWords] {
		w[i] += v
	}
	squareSumNormalise(w)
}

// SquareSumValue returns the sum rounded once to the nearest float64, ties to even: NaN when a NaN was added, else
// +Inf when an infinity was added or the sum is too large.
func SquareSumValue(words []int64) float64 {
	w := *(*[SquareSumWords]int64)(words)
	switch {
	case w[squareSumNaN] != 0:
		return math.NaN()
	case w[squareSumInfinity] != 0:
		return math.Inf(1)
	}
	squareSumNormalise(&w)
	first := squareSumDigits - 1
	for first > 0 && w[first] == 0 {
		first--
	}
	const guard = 11                                                 // bits below the last one that is kept
	const subnormal = squareSumFraction - 1074 - guard               // a float64 has no bit below 2^-1074
	last := max(32*first+bits.Len64(uint64(w[first]))-64, subnormal) // the lowest bit of a window of 64
	window, rest := squareSumWindow(&w, last)
	kept, guards := window>>guard, window&(1<<guard-1)
	half := uint64(1) << (guard - 1)
	if guards > half || guards == half && (rest || kept&1 == 1) {
		kept++
	}
	return math.Ldexp(float64(kept), last+guard-squareSumFraction)
}

// squareSumWindow returns the 64 bits from bit last upwards, and whether any bit below is set.
func squareSumWindow(w *[SquareSumWords]int64, last int) (window uint64, rest bool) {
	digit, shift := last/32, last%32
	window = uint64(w[digit]) >> shift
	for i, place := digit+1, 32-shift; i < squareSumDigits && place < 64; i, place = i+1, place+32 {
		window |= uint64(w[i]) << place
	}
	rest = uint64(w[digit])&(1<<shift-1) != 0
	for i := 0; i < digit && !rest; i++ {
		rest = w[i] != 0
	}
	return window, rest
}
