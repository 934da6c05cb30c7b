package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

var transcendentals = []struct {
	name      string
	f         func(out, x []float32)
	reference func(float64) float64
}{
	{"exp", Exp[float32], math.Exp},
	{"sigmoid", Sigmoid[float32], func(x float64) float64 {
		if x < 0 {
			return math.Exp(x) / (1 + math.Exp(x))
		}
		return 1 / (1 + math.Exp(-x))
	}},
	{"tanh", Tanh[float32], math.Tanh},
}

// units returns how many units in the last place of want got is off; 0 for two NaNs or equal infinities.
func units(got float32, want float64) float64 {
	g := float64(got)
	switch {
	case math.IsNaN(g) && math.IsNaN(want), g == want:
		return 0
	case math.IsInf(g, 0) && math.Abs(want) >= math.MaxFloat32:
		return 0
	}
	size := min(math.Abs(want), math.MaxFloat32)
	last := math.Ldexp(1, max(math.Ilogb(size)-23, -149))
	return math.Abs(g-want) / last
}

// The functions stay within 2 units in the last place for every stride-th float32.
func TestTranscendentalsArePrecise(t *testing.T) {
	const stride, batch = 4099, 1 << 12
	eachLevel(t, func(t *testing.T) {
		x, out := make([]float32, 0, batch), make([]float32, batch)
		worst, at := make([]float64, len(transcendentals)), make([]float32, len(transcendentals))
		check := func() {
			for i, c := range transcendentals {
				c.f(out[:len(x)], x)
				for j, v := range x {
					if u := units(out[j], c.reference(float64(v))); !(u <= worst[i]) {
						worst[i], at[i] = u, v
					}
				}
			}
			x = x[:0]
		}
		for pattern := uint64(0); pattern < 1<<32; pattern += stride {
			if x = append(x, math.Float32frombits(uint32(pattern))); len(x) == batch {
				check()
			}
		}
		x = append(x, 0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
			math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 88.72283, 88.72284, -87.33655, -103.97208, -103.97209, 0.625)
		check()
		for i, c := range transcendentals {
			if !(worst[i] <= 2) {
				t.Errorf("%s(%v) is %v units in the last place off", c.name, at[i], worst[i])
			}
			t.Logf("%s: at most %.3f units in the last place, at %v", c.name, worst[i], at[i])
		}
	})
}

// Every element has the same bits at any place.
func TestTranscendentalsKeepBits(t *testing.T) {
	g := newGuards(t, 2)
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 50).Draw(t, "n")
			x := make([]float32, n)
			for i := range x {
				x[i] = math.Float32frombits(rapid.Uint32().Draw(t, "x"))
			}
			x = guarded(g, 0, x)
			for _, c := range transcendentals {
				out, alone := guarded(g, 1, make([]float32, n)), make([]float32, 1)
				c.f(out, x)
				for i := range x {
					c.f(alone, x[i:i+1])
					sameBits(t, alone, out[i:i+1])
				}
			}
		})
	})
}
