package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestScale(t *testing.T) {
	out := make([]float32, 2)
	Scale(out, []float32{1, -2}, 3, 0.5, true)
	nearAll(t, "scale*x+bias", out, []float64{3.5, -5.5})
	Scale(out, []float32{1, -2}, 3, 0.5, false)
	nearAll(t, "scale*(x+bias)", out, []float64{4.5, -4.5})
	ints := make([]int64, 2)
	if Scale(ints, []int64{4, -2}, 3, 1, true); !slices.Equal(ints, []int64{13, -5}) {
		t.Errorf("integer scale is %v", ints)
	}
}

func TestClip(t *testing.T) {
	x := []float64{-3, -1, 0.5, 1, 3, math.NaN()}
	out, dx := make([]float64, 6), make([]float64, 6)
	Clip(out, x, -1, 1)
	nearAll(t, "clip", out, []float64{-1, -1, 0.5, 1, 1, math.NaN()})
	ClipGrad(dx, x, []float64{1, 2, 3, 4, 5, 6}, -1, 1)
	nearAll(t, "clip gradient", dx, []float64{0, 0, 3, 0, 0, 0})
}
