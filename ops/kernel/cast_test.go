package kernel

import (
	"math"
	"slices"
	"testing"

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
