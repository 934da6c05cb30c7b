package merge_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Trainers divide numbers. Their totals are the sum and the mean of all numbers. A number has the same gradient as on one machine, when the gradients of
// trainers are averaged by rows.
func TestTotalsAreThoseOfTheBatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "trainers")
		parts := make([]ops.Totals, n)
		var all, rows, over float64
		for i := range parts {
			x := rapid.SliceOfN(rapid.Float64Range(-10, 10), 0, 9).Draw(rt, "numbers")
			sum := 0.0
			for _, v := range x {
				sum += v
			}
			count := int64(len(x))
			parts[i] = ops.Totals{Rows: rapid.Int64Range(1, 9).Draw(rt, "rows"), Over: []int64{count, count}, Values: []float64{sum, sum / float64(count)}}
			all, rows, over = all+sum, rows+float64(parts[i].Rows), over+float64(count)
		}
		if over == 0 {
			return
		}
		devices := rapid.IntRange(1, n).Draw(rt, "devices") // of the first trainer
		first, err := merge.JoinTotals([]*tensor.Tensor{of(t, 0.0), of(t, 0.0)}, []*tensor.Tensor{of(t, 0.0), of(t, 0.0)}, []bool{false, true}, parts[:devices])
		if err != nil {
			rt.Fatal(err)
		}
		trainers := append([]ops.Totals{first}, parts[devices:]...)
		for _, p := range parts {
			sum, mean, sumScale, meanScale := of(t, 0.0), of(t, 0.0), of(t, 0.0), of(t, 0.0)
			if err := merge.Totals([]*tensor.Tensor{sum, mean}, []*tensor.Tensor{sumScale, meanScale}, []bool{false, true}, p, trainers); err != nil {
				rt.Fatal(err)
			}
			if got := sum.Float64s()[0]; math.Abs(got-all) > 1e-9 {
				rt.Fatalf("sum %v, want %v", got, all)
			}
			if got := mean.Float64s()[0]; math.Abs(got-all/over) > 1e-9 {
				rt.Fatalf("mean %v, want %v", got, all/over)
			}
			weight := float64(p.Rows) / rows
			if got := sumScale.Float64s()[0] * weight; math.Abs(got-1) > 1e-9 {
				rt.Fatalf("a number counts %v times in the sum", got)
			}
			if got := meanScale.Float64s()[0] * weight * over; p.Over[1] > 0 && math.Abs(got/float64(p.Over[1])-1) > 1e-9 {
				rt.Fatalf("a number counts %v times in the mean", got/float64(p.Over[1]))
			}
		}
	})
}

func TestTotalsOfOneTrainerAreItsOwn(t *testing.T) {
	total, scale := of[float32](t, 0, 0), of[float32](t, 0)
	part := ops.Totals{Rows: 3, Over: []int64{7}, Values: []float64{float64(float32(0.1)), -2}}
	for _, mean := range []bool{false, true} {
		if err := merge.Totals([]*tensor.Tensor{total}, []*tensor.Tensor{scale}, []bool{mean}, part, []ops.Totals{part}); err != nil {
			t.Fatal(err)
		}
		if got := total.Float32s(); got[0] != 0.1 || got[1] != -2 || scale.Float32s()[0] != 1 {
			t.Errorf("mean %v: total %v, scale %v", mean, got, scale.Float32s())
		}
	}
}

// A trainer whose part has no element has no mean: what it sends in its place does not count, and its scale is 0.
func TestTotalsLeaveOutEmptyParts(t *testing.T) {
	total, scale := of[float32](t, 0), of[float32](t, 7)
	parts := []ops.Totals{{Rows: 1, Over: []int64{0}, Values: []float64{math.NaN()}}, {Rows: 2, Over: []int64{4}, Values: []float64{5}}}
	if err := merge.Totals([]*tensor.Tensor{total}, []*tensor.Tensor{scale}, []bool{true}, parts[0], parts); err != nil {
		t.Fatal(err)
	}
	if total.Float32s()[0] != 5 || scale.Float32s()[0] != 0 {
		t.Errorf("total %v, scale %v, want 5 and 0", total.Float32s(), scale.Float32s())
	}
}

func TestTotalsRefuse(t *testing.T) {
	good := ops.Totals{Rows: 1, Over: []int64{1}, Values: []float64{1}}
	for name, bad := range map[string]ops.Totals{
		"no rows":          {Over: []int64{1}, Values: []float64{1}},
		"a missing total":  {Rows: 1, Values: []float64{1}},
		"too many numbers": {Rows: 1, Over: []int64{1}, Values: []float64{1, 2}},
		"fewer than none":  {Rows: 1, Over: []int64{-1}, Values: []float64{1}},
	} {
		err := merge.Totals([]*tensor.Tensor{of[float32](t, 0)}, []*tensor.Tensor{of[float32](t, 0)}, []bool{true}, good, []ops.Totals{good, bad})
		if !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	numbers := []*tensor.Tensor{of[int64](t, 0)}
	if err := merge.Totals(numbers, numbers, []bool{true}, good, []ops.Totals{good}); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("integers: %v", err)
	}
}
