package integer_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/edl-go/edl/internal/integer"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0.0": 0, "0e99999999999999999999": 0, "+7": 7, "007": 7, "12.": 12, "3.00": 3, "1e3": 1000, "-1.5E+1": -15, "2500e-2": 25, ".5e1": 5,
		"-2897116770142947272": -2897116770142947272, "-2897116770142947272.0": -2897116770142947272, "9007199254740993": 1<<53 + 1,
		"9.007199254740993e15": 1<<53 + 1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "-9.223372036854775808e18": math.MinInt64,
		"1" + strings.Repeat("0", 1000) + "e-1000": 1,
	} {
		if got, ok := integer.Parse(text, 64); !ok || got != want {
			t.Errorf("%.40s: %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", " 1", "+", "-", ".", "e1", "1e", "--1", "1 2", "abc", "1.5", "1e-1", "5e-324", "1e-99999999999999999999", "nan", "inf", "-Infinity", "0x10", "0x1p3", "1_0", "1/1",
		"9223372036854775808", "-9223372036854775809", "18446744073709551615", "9.223372036854775808e18", "1e19", "1e400", "1e99999999999999999999",
		"1.0000000000000000000000001",
	} {
		if got, ok := integer.Parse(text, 64); ok {
			t.Errorf("%q is %d", text, got)
		}
	}
	if got, ok := integer.Parse("2147483647", 32); !ok || got != math.MaxInt32 {
		t.Error(got, ok)
	}
	if got, ok := integer.Parse("2.147483648e9", 32); ok {
		t.Error(got)
	}
}

// Where the library of big numbers reads a decimal number, both agree.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1e3", "-2.50e1", "9223372036854775807", "0.0", "1e-2", "+5.", "0E10000000000000000000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := integer.Parse(text, 64)
		if len(text) > 40 || strings.Trim(text, "0123456789+-.eE") != "" {
			return
		}
		if e := strings.IndexAny(text, "eE"); e >= 0 && len(text)-e > 5 { // the library refuses large exponents, of 0 too
			return
		}
		want, known := new(big.Rat).SetString(text)
		if known = known && want.IsInt() && want.Num().IsInt64(); ok != known || ok && got != want.Num().Int64() {
			t.Errorf("%q: %d, %v, want %v", text, got, ok, want)
		}
	})
}
