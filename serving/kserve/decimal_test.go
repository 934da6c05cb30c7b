package kserve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// sameAsStrconv checks one text.
func sameAsStrconv(t *testing.T, text string) {
	t.Helper()
	for _, bits := range []int{32, 64} {
		got, err := parseFloat([]byte(text), bits)
		want, wrong := strconv.ParseFloat(text, bits)
		if math.Float64bits(got) != math.Float64bits(want) || (err == nil) != (wrong == nil) {
			t.Errorf("%q as float%d: %v, %v; want %v, %v", text, bits, got, err, want, wrong)
		}
	}
}

func TestParseFloat(t *testing.T) {
	for _, text := range strings.Fields("0 -0 0.0 -0.0 1 -1 .5 5. . - -. 1.2.3 1e3 1E-3 1e 01 0x10 1_0 inf NaN +1 16777217 16777217.0 33554435 0.1 123456789012345 1234567890123456 " +
		"999999999999999 0.000000000000001 0.0000000000000001 9007199254740993 1.17549435e-38 3.4028236e38 340282366920938463463374607431768211456 1.000000059604645 0.500000029802322") {
		sameAsStrconv(t, text)
	}
	sameAsStrconv(t, "")
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		x := math.Float32frombits(r.Uint32())
		sameAsStrconv(t, strconv.FormatFloat(float64(x), 'f', -1, 32))
		sameAsStrconv(t, fmt.Sprintf("%.*f", r.IntN(12), (r.Float64()-0.5)*math.Pow(10, float64(r.IntN(8)))))
		between := float64(x) + float64(math.Nextafter32(x, 2*x)-x)/2 // halfway
		sameAsStrconv(t, strconv.FormatFloat(between, 'f', r.IntN(15), 64))
	}
}

func FuzzParseFloat(f *testing.F) {
	f.Add("-1.5")
	f.Add("16777217.0000001")
	f.Fuzz(sameAsStrconv)
}
