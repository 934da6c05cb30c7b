package metrics

import (
	"math"
	"math/big"
	"math/bits"
)

// sumDigits digits of 32 bits hold 2^-1074, the least subnormal, to 2^1024, the end of float64, and more than 64 bits for the number of terms.
const sumDigits = 69

// sumBatch is how many terms fit between two carries: each adds less than 2^32 to a digit of 64 bits with sign.
const sumBatch = 1 << 30

// A sum is an exact sum of finite float64: digit i counts 2^(32*i) units of 2^-1074. Nothing is rounded, so neither the order of the terms nor their
// division into parts matters. The zero sum is empty.
type sum struct {
	digits [sumDigits]int64
	terms  int // since the digits were carried
}

// add adds a finite number.
func (s *sum) add(v float64) {
	pattern := math.Float64bits(v)
	mantissa, exponent := pattern&(1<<52-1), pattern>>52&(1<<11-1)
	if exponent == 0 {
		exponent = 1
	} else {
		mantissa |= 1 << 52
	}
	place := exponent - 1
	high, low := bits.Mul64(mantissa, 1<<(place&31))
	digit := s.digits[place>>5:][:3]
	if v < 0 {
		digit[0] -= int64(low & math.MaxUint32)
		digit[1] -= int64(low >> 32)
		digit[2] -= int64(high)
	} else {
		digit[0] += int64(low & math.MaxUint32)
		digit[1] += int64(low >> 32)
		digit[2] += int64(high)
	}
	if s.terms++; s.terms == sumBatch {
		s.carry()
	}
}

// addProduct adds a*b without rounding it, unless the product is so small that its last digits lie below those of float64.
func (s *sum) addProduct(a, b float64) {
	product := a * b
	s.add(product)
	s.add(math.FMA(a, b, -product))
}

// carry brings every digit but the last, which has the sign, into [0, 2^32).
func (s *sum) carry() {
	carry := int64(0)
	for i := range sumDigits - 1 {
		v := s.digits[i] + carry
		s.digits[i] = v & math.MaxUint32
		carry = v >> 32
	}
	s.digits[sumDigits-1] += carry
	s.terms = 0
}

// merge adds another sum.
func (s *sum) merge(other *sum) {
	s.carry()
	o := *other
	o.carry()
	for i, v := range o.digits {
		s.digits[i] += v
	}
	s.carry()
}

// sumPrecision is enough for the product of two sums.
const sumPrecision = 2 * 32 * (sumDigits + 2)

// value returns the sum as a number that is exact.
func (s *sum) value() *big.Float {
	c := *s
	c.carry()
	whole := big.NewInt(c.digits[sumDigits-1])
	for i := sumDigits - 2; i >= 0; i-- {
		whole.Lsh(whole, 32)
		whole.Or(whole, big.NewInt(c.digits[i]))
	}
	f := new(big.Float).SetPrec(sumPrecision).SetInt(whole)
	return f.SetMantExp(f, -1074)
}
