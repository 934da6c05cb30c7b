package kernel

import (
	"testing"

	"pgregory.net/rapid"
)

// The properties of matrix products, convolutions and activations, driven by the fuzzer rather than at random.

func FuzzGemm(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(rapid.MakeFuzz(testGemm[float32]))
}

func FuzzConvolution(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, input []byte) {
		g := newGuards(t, 7)
		rapid.MakeFuzz(func(t *rapid.T) { testConvolution[float32](t, g) })(t, input)
	})
}

func FuzzWinograd(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, input []byte) {
		g := newGuards(t, 13)
		for _, size := range winogradSizes {
			rapid.MakeFuzz(func(t *rapid.T) { testWinograd(t, g, size) })(t, input)
		}
	})
}

func FuzzTranscendentals(f *testing.F) {
	f.Add(float32(0), uint8(3))
	f.Add(float32(-103.97), uint8(0))
	f.Add(float32(0.625), uint8(17))
	f.Fuzz(func(t *testing.T, x float32, place uint8) {
		row, out := noise[float32](1, 32), make([]float32, 32)
		row[place%32] = x
		for _, c := range transcendentals {
			c.f(out, row)
			if u := units(out[place%32], c.reference(float64(x))); !(u <= 2) {
				t.Errorf("%s(%v) = %v is %v units in the last place off", c.name, x, out[place%32], u)
			}
		}
	})
}
