package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Number lists the element types with arithmetic and order.
type Number interface {
	int32 | int64 | float32 | float64
}

// Cast converts numbers elementwise. Both slices have one length. Floats are truncated towards zero to integers. The result for a NaN, or for a
// number outside of the range of the integer, depends on the machine.
func Cast[To, From Number](out []To, x []From) {
	x = x[:len(out)]
	for i := range out {
		out[i] = To(x[i])
	}
}

// CastFromBool converts false to 0 and true to 1. Both slices are of one length.
func CastFromBool[To Number](out []To, x []bool) {
	x = x[:len(out)]
	for i := range out {
		out[i] = 0
		if x[i] {
			out[i] = 1
		}
	}
}

// CastToBool converts 0 to false and anything else, NaN included, to true. Both slices are of one length.
func CastToBool[From Number](out []bool, x []From) {
	x = x[:len(out)]
	for i := range out {
		out[i] = x[i] != 0
	}
}

// Fill sets every element of out to value.
func Fill[T any](out []T, value T) {
	for i := range out {
		out[i] = value
	}
}

// The 16-bit formats are carried as their bit patterns. Conversions to them round to nearest, ties to even, beyond their
// range to infinity; a NaN stays one, becomes quiet and keeps the upper bits of its payload. Conversions from them are
// exact. Both slices of a call are of one length.

// ToFloat16 converts to IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
func ToFloat16(out []uint16, x []float32) {
	x = x[:len(out)]
	done := 0
	if v := vectorsFor[float32](len(out)); v != nil {
		v.ToFloat16(out, x)
		done = len(out) &^ 7
	}
	for i := done; i < len(out); i++ {
		out[i] = float16Of(x[i])
	}
}

// FromFloat16 converts from IEEE 754 binary16.
func FromFloat16(out []float32, x []uint16) {
	x = x[:len(out)]
	done := 0
	if v := vectorsFor[float32](len(out)); v != nil {
		v.FromFloat16(out, x)
		done = len(out) &^ 7
	}
	for i := done; i < len(out); i++ {
		out[i] = tensor.WidenHalf(x[i])
	}
}

// ToBFloat16 converts to bfloat16, the upper half of a float32.
func ToBFloat16(out []uint16, x []float32) {
	x = x[:len(out)]
	done := 0
	if v := vectorsFor[float32](len(out)); v != nil {
		v.ToBFloat16(out, x)
		done = len(out) &^ 7
	}
	for i := done; i < len(out); i++ {
		out[i] = bfloat16Of(x[i])
	}
}

// FromBFloat16 converts from bfloat16.
func FromBFloat16(out []float32, x []uint16) {
	x = x[:len(out)]
	done := 0
	if v := vectorsFor[float32](len(out)); v != nil {
		v.FromBFloat16(out, x)
		done = len(out) &^ 7
	}
	for i := done; i < len(out); i++ {
		out[i] = math.Float32frombits(uint32(x[i]) << 16)
	}
}

func bfloat16Of(x float32) uint16 {
	const quiet = 1 << 22
	b := math.Float32bits(x)
	if x != x {
		return uint16((b | quiet) >> 16)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// float16Of lets float32 arithmetic round: adding a number whose last bit is that of the result drops what does not fit.
func float16Of(x float32) uint16 {
	const (
		infinity    = 0x7c00
		quiet       = 0x0200
		overflow    = 65520        // from here on infinity is nearest
		leastNormal = 0x1p-14      // of binary16
		subnormal   = float32(0.5) // its last bit is 2^-24, as of a subnormal binary16
		bias        = (127 - 15) << 23
	)
	b := math.Float32bits(x)
	sign, size := uint16(b>>16)&0x8000, b&^(1<<31)
	switch m := math.Float32frombits(size); {
	case m != m:
		return sign | infinity | quiet | uint16(size>>13)&0x03ff
	case m >= overflow:
		return sign | infinity
	case m < leastNormal:
		return sign | uint16(math.Float32bits(m+subnormal)-math.Float32bits(subnormal))
	}
	return sign | uint16((size-bias+0x0fff+size>>13&1)>>13)
}
