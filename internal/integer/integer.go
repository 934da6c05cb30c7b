// Package integer reads the integers that numbers in decimal notation are, without a way through floats, which round those beyond 2^53.
package integer

import (
	"strconv"
	"strings"
)

// Parse returns the value of a decimal number, such as 12, -3.0 or 1e3, as an integer of 1 to 64 bits. It reports false for a text that is no such number, or
// whose value is not whole or needs more bits. The work is linear in the length of the text, whatever its exponent.
func Parse(text string, bits int) (int64, bool) {
	if v, err := strconv.ParseInt(text, 10, bits); err == nil {
		return v, true
	}
	if !decimal(text) {
		return 0, false
	}
	sign, text := "", strings.ToLower(text)
	if text[0] == '+' || text[0] == '-' {
		sign, text = text[:1], text[1:]
	}
	mantissa, power, _ := strings.Cut(text, "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, true
	}
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil {
			return 0, false
		}
	}
	significant := strings.TrimRight(digits, "0")
	zeros := exponent - len(fraction) + len(digits) - len(significant)
	const most = 19 // digits of 64 bits
	if zeros < 0 || zeros > most || len(significant) > most {
		return 0, false
	}
	v, err := strconv.ParseInt(sign+significant+strings.Repeat("0", zeros), 10, bits)
	return v, err == nil
}

// decimal reports whether text is a number in decimal notation, however large or small.
func decimal(text string) bool {
	if strings.ContainsAny(text, "xX_nN") { // hexadecimal numbers, NaN, infinities
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || err.(*strconv.NumError).Err == strconv.ErrRange
}
