package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/tensor"
)

// A rate of 0, with which a warm-up begins, makes nothing infinite or NaN, and ftrl, which divides by the rate, then changes nothing.
func TestRateOfZero(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, opType := range all {
			u := newUpdate(t, opType, nil, dtype, 7, 5, 3)
			if u.in[rateSlot] == nil {
				continue // adadelta
			}
			before := map[string][]float64{}
			for slot, x := range u.in {
				before[slot] = slices.Clone(float64sOf(x))
			}
			for _, zero := range []float64{0, math.Copysign(0, -1)} {
				setRate(u, zero)
				u.run(t, 2)
			}
			for slot, x := range u.in {
				now := float64sOf(x)
				if opType == "ftrl" && slot != rateSlot && !slices.Equal(now, before[slot]) {
					t.Errorf("%v ftrl: %s is %v, was %v", dtype, slot, now, before[slot])
				}
				if slices.ContainsFunc(now, func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }) {
					t.Errorf("%v %s: %s is %v", dtype, opType, slot, now)
				}
			}
		}
	}
}

func setRate(u *update, to float64) {
	for i := range u.in[rateSlot].Float32s() {
		u.in[rateSlot].Float32s()[i] = float32(to)
	}
	for i := range u.in[rateSlot].Float64s() {
		u.in[rateSlot].Float64s()[i] = to
	}
}
