package kserve

import (
	"math"
	"strconv"
)

// powers are powers of ten that float64 has exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// mostDigits is how many decimal digits a whole number may have so that float64 has it exactly, whatever they are.
const mostDigits = 15

// parseFloat is strconv.ParseFloat for float64 (64 bits) and float32 (32 bits), and has the same result. Most numbers of a request have few digits and no exponent: digits and
// the power of ten are then exact, and so the one division rounds as it should (W. D. Clinger, How to Read Floating Point Numbers Accurately, 1990). Rounding once more, to float32, is right unless
// the float64 lies in the middle between two of them.
func parseFloat(word []byte, bits int) (float64, error) {
	at, negative := 0, false
	if len(word) > 0 && word[0] == '-' {
		at, negative = 1, true
	}
	whole, digits, behind, point := int64(0), 0, 0, false
	for ; at < len(word); at++ {
		c := word[at]
		switch {
		case c >= '0' && c <= '9':
			whole = whole*10 + int64(c-'0')
			if digits++; point {
				behind++
			}
		case c == '.' && !point:
			point = true
		default:
			return strconv.ParseFloat(string(word), bits)
		}
		if digits > mostDigits {
			return strconv.ParseFloat(string(word), bits)
		}
	}
	v := float64(whole) / powers[behind]
	if digits == 0 || bits == 32 && math.Float64bits(v)&(1<<29-1) == 1<<28 {
		return strconv.ParseFloat(string(word), bits)
	}
	if negative {
		v = -v
	}
	if bits == 32 {
		v = float64(float32(v))
	}
	return v, nil
}
