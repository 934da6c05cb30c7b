package kserve

import (
	"math"
	"strconv"
)

// powers are powers of ten that float64 has exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// mostDigits is how many decimal digits a whole number may have so that float64 has it exactly, whatever they are.
const mostDigits = 15

// parseFloat is strconv.ParseFloat for float64 (64 bits) and float32 (32 bits), and has the same result.
func parseFloat(word []byte, bits int) (float64, error) {
	if v, n, ok := decimal(word, bits); ok && n == len(word) {
		return v, nil
	}
	return strconv.ParseFloat(string(word), bits)
}

// decimal reads the number at the beginning of b, which ends at the first byte, n, that is no digit or point of it. It has the result of strconv.ParseFloat, or is not ok. Most numbers of a
// request have few digits and no exponent: digits and the power of ten are then exact, and so the one division rounds as it should (W. D. Clinger, How to Read Floating Point Numbers
// Accurately, 1990). Rounding once more, to float32, is right unless the float64 lies in the middle between two of them.
func decimal(b []byte, bits int) (v float64, n int, ok bool) {
	at, negative := 0, len(b) > 0 && b[0] == '-'
	if negative {
		at = 1
	}
	whole, from := uint64(0), at // of too many digits, whole is not used
	for at < len(b) && b[at]-'0' < 10 {
		whole = whole*10 + uint64(b[at]-'0')
		at++
	}
	digits, behind := at-from, 0
	if at < len(b) && b[at] == '.' {
		at++
		from = at
		for at < len(b) && b[at]-'0' < 10 {
			whole = whole*10 + uint64(b[at]-'0')
			at++
		}
		behind = at - from
		digits += behind
	}
	if digits == 0 || digits > mostDigits {
		return 0, at, false
	}
	v = float64(whole) / powers[behind]
	if bits == 32 {
		if math.Float64bits(v)&(1<<29-1) == 1<<28 {
			return 0, at, false
		}
		v = float64(float32(v))
	}
	if negative {
		v = -v
	}
	return v, at, true
}
