package kernel_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops/kernel"
)

// Without the element at a place, the sums are those of the places before it, and so are the gradients.
func TestExclusiveLogCumSumExp(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		x, dout := []float64{1, -2, 0.5, 3}, []float64{7, 2, -3, 0.5}
		short, dshort := x[:3], dout[1:]
		if reverse {
			short, dshort = x[1:], dout[:3]
		}
		out, want := make([]float64, 4), make([]float64, 3)
		kernel.LogCumSumExp(out, x, 4, 1, true, reverse, -9, 0, 1)
		kernel.LogCumSumExp(want, short, 3, 1, false, reverse, -9, 0, 1)
		dx, dwant := make([]float64, 4), make([]float64, 3)
		kernel.LogCumSumExpGrad(dx, x, out, dout, 4, 1, true, reverse, 0, 1)
		kernel.LogCumSumExpGrad(dwant, short, want, dshort, 3, 1, false, reverse, 0, 1)
		if reverse {
			want, dwant = append(want, -9), slices.Insert(dwant, 0, 0)
		} else {
			want, dwant = slices.Insert(want, 0, -9), append(dwant, 0)
		}
		if !slices.Equal(out, want) || !slices.Equal(dx, dwant) {
			t.Errorf("reverse %v: %v with gradient %v, want %v with %v", reverse, out, dx, want, dwant)
		}
	}
}

func TestLogCumSumExpOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	out := make([]float64, 4)
	kernel.LogCumSumExp(out, []float64{-inf, 0, inf, 1}, 4, 1, false, false, 0, 0, 1)
	if want := []float64{-inf, 0, inf, inf}; !slices.Equal(out, want) {
		t.Errorf("%v, want %v", out, want)
	}
}
