package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

func TestCast(t *testing.T) {
	ints := make([]int32, 4)
	if Cast(ints, []float64{1.9, -1.9, 0, 1 << 30}); !slices.Equal(ints, []int32{1, -1, 0, 1 << 30}) {
		t.Errorf("float64 to int32: %v", ints)
	}
	longs := make([]int64, 2)
	if Cast(longs, []int32{math.MinInt32, 7}); !slices.Equal(longs, []int64{math.MinInt32, 7}) {
		t.Errorf("int32 to int64: %v", longs)
	}
	floats := make([]float32, 2)
	if Cast(floats, []int64{1 << 24, -3}); !slices.Equal(floats, []float32{1 << 24, -3}) {
		t.Errorf("int64 to float32: %v", floats)
	}
	bools := make([]bool, 4)
	if CastToBool(bools, []float32{0, -0.5, 2, float32(math.NaN())}); !slices.Equal(bools, []bool{false, true, true, true}) {
		t.Errorf("float32 to bool: %v", bools)
	}
	if CastFromBool(longs, []bool{true, false}); !slices.Equal(longs, []int64{1, 0}) {
		t.Errorf("bool to int64: %v", longs)
	}
	if Fill(bools, true); !slices.Equal(bools, []bool{true, true, true, true}) {
		t.Errorf("filled: %v", bools)
	}
}

func TestFirstNonFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := noise[float32](1, rapid.IntRange(0, 30).Draw(t, "n"))
		if len(x) > 0 {
			x[0] = math.MaxFloat32
		}
		if got := FirstNonFinite(x); got != -1 {
			t.Fatalf("finite numbers give %d", got)
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			y := slices.Clone(x)
			for i := len(y) - 1; i >= 0; i-- { // later ones stay bad
				if y[i] = float32(bad); FirstNonFinite(y) != i {
					t.Fatalf("%v at %d is found at %d", bad, i, FirstNonFinite(y))
				}
			}
		}
	})
}

// Every number of 16 bits survives the conversion to float32 and back, except that a NaN becomes quiet.
func TestHalfRoundTrip(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		patterns, back := make([]uint16, 1<<16), make([]uint16, 1<<16)
		for i := range patterns {
			patterns[i] = uint16(i)
		}
		wide := make([]float32, len(patterns))
		for _, format := range []struct {
			name                       string
			to                         func([]uint16, []float32)
			from                       func([]float32, []uint16)
			infinity, quiet, magnitude uint16
			value                      func(sign, exponent, fraction float64) float64
		}{
			{"float16", ToFloat16, FromFloat16, 0x7c00, 0x0200, 10, nil},
			{"bfloat16", ToBFloat16, FromBFloat16, 0x7f80, 0x0040, 7, nil},
		} {
			format.from(wide, patterns)
			format.to(back, wide)
			for i, p := range patterns {
				want := p
				if p&0x7fff > format.infinity {
					want |= format.quiet
				}
				if back[i] != want {
					t.Fatalf("%s %#04x becomes %v and then %#04x", format.name, p, wide[i], back[i])
				}
			}
			// The least numbers tell the scale: subnormals are evenly spaced, 1 is 1.
			if one := (format.infinity >> format.magnitude / 2) << format.magnitude; wide[one] != 1 {
				t.Fatalf("%s %#04x is %v, want 1", format.name, one, wide[one])
			}
			if wide[3] != 3*wide[1] || wide[1] <= 0 {
				t.Fatalf("%s: the subnormals 1 and 3 are %v and %v", format.name, wide[1], wide[3])
			}
		}
	})
}

// A float32 goes to the nearer of its two neighbours, and to the even one from the middle.
func TestHalfRounding(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, c := range []struct {
			name     string
			to       func([]uint16, []float32)
			from     func([]float32, []uint16)
			infinity uint16
		}{{"float16", ToFloat16, FromFloat16, 0x7c00}, {"bfloat16", ToBFloat16, FromBFloat16, 0x7f80}} {
			patterns := make([]uint16, c.infinity)
			for i := range patterns {
				patterns[i] = uint16(i)
			}
			grid := make([]float32, len(patterns))
			c.from(grid, patterns)
			var x []float32
			var want []uint16
			for i := 0; i+1 < len(grid); i++ {
				middle := float32((float64(grid[i]) + float64(grid[i+1])) / 2) // exact
				even := uint16(i + i%2)
				x = append(x, math.Nextafter32(middle, 0), middle, math.Nextafter32(middle, math.MaxFloat32))
				want = append(want, uint16(i), even, uint16(i+1))
			}
			got := make([]uint16, len(x))
			c.to(got, x)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s of %v is %#04x, want %#04x", c.name, x[i], got[i], want[i])
				}
			}
			edge := make([]uint16, 9)
			c.to(edge, []float32{math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)),
				0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, 1})
			for i, w := range []uint16{c.infinity, c.infinity | 0x8000, c.infinity, c.infinity | 0x8000, 0, 0x8000, 0, 0x8000} {
				if edge[i] != w {
					t.Fatalf("%s: edge case %d gives %#04x, want %#04x", c.name, i, edge[i], w)
				}
			}
		}
	})
}

// Vector instructions and portable code agree on every pattern, NaNs included, at any length.
func TestHalfAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		x, halves := make([]float32, n), make([]uint16, n)
		for i := range x {
			x[i] = math.Float32frombits(rapid.Uint32().Draw(t, "x"))
		}
		f16, bf16, back := make([]uint16, n), make([]uint16, n), make([]float32, n)
		ToFloat16(f16, x)
		ToBFloat16(bf16, x)
		for i := range x {
			if f16[i] != float16Of(x[i]) || bf16[i] != bfloat16Of(x[i]) {
				t.Fatalf("%#08x: %#04x %#04x, portable %#04x %#04x", math.Float32bits(x[i]), f16[i], bf16[i], float16Of(x[i]), bfloat16Of(x[i]))
			}
			halves[i] = uint16(math.Float32bits(x[i]))
		}
		FromFloat16(back, halves)
		for i := range x {
			if math.Float32bits(back[i]) != math.Float32bits(tensor.WidenHalf(halves[i])) {
				t.Fatalf("%#04x gives %v, portable %v", halves[i], back[i], tensor.WidenHalf(halves[i]))
			}
		}
	})
}
