package math_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// words is the exact sum of squares of x.
func words(x ...float64) *tensor.Tensor {
	sum := make([]int64, kernel.SquareSumWords)
	kernel.SquareSumAdd(sum, x)
	return Ints(dims{kernel.SquareSumWords}, sum...)
}

var normCases = []Case{
	{Type: "clip", Attrs: attrs{"min": float32(-1), "max": float32(1.5)}, Inputs: slots{"X": One(Floats(dims{2, 2}, -3, 0.5, 2, 1))},
		Want: slots{"Out": One(Floats(dims{2, 2}, -1, 0.5, 1.5, 1))}},
	{Type: "clip", Name: "int64", Attrs: attrs{"min": float32(-1.5), "max": float32(3.4e38)}, Inputs: slots{"X": One(Ints(dims{3}, -3, 0, 1<<62))}, Want: slots{"Out": One(Ints(dims{3}, -1, 0, 1<<62))}},
	{Type: "clip", Name: "int32", Attrs: attrs{"min": float32(-3.4e38), "max": float32(2)}, Inputs: slots{"X": One(Int32s(dims{3}, -1<<31, 2, 7))}, Want: slots{"Out": One(Int32s(dims{3}, -1<<31, 2, 2))}},
	{Type: "clip", Name: "bounds of tensors", Inputs: slots{"X": One(Floats(dims{2, 2}, -3, 0.5, 2, 1)), "Min": One(Floats(dims{1}, -1)), "Max": One(Floats(dims{1}, 1.5))}, Constant: []string{"Min", "Max"},
		Want: slots{"Out": One(Floats(dims{2, 2}, -1, 0.5, 1.5, 1))}},
	{Type: "clip_by_norm", Attrs: attrs{"max_norm": float32(2.5)}, Inputs: slots{"X": One(Floats(dims{2}, 3, -4))},
		Want: slots{"Out": One(Floats(dims{2}, 1.5, -2))}},
	{Type: "clip_by_norm", Name: "short", Attrs: attrs{"max_norm": float32(5)}, Inputs: slots{"X": One(Floats(dims{2}, 3, -4))},
		Want: slots{"Out": One(Floats(dims{2}, 3, -4))}},
	{Type: "dgc_clip_by_norm", Attrs: attrs{"max_norm": float32(2.5), "rampup_begin_step": float32(3)}, Inputs: slots{"X": One(Floats(dims{2}, 3, -4)), "current_step": One(Floats(dims{1}, 3))},
		Want: slots{"Out": One(Floats(dims{2}, 1.5, -2))}},
	{Type: "dgc_clip_by_norm", Name: "before", Attrs: attrs{"max_norm": float32(2.5), "rampup_begin_step": float32(3)}, Inputs: slots{"X": One(Floats(dims{2}, 3, -4)), "current_step": One(Floats(dims{1}, 2.75))},
		Want: slots{"Out": One(Floats(dims{2}, 3, -4))}},
	{Type: "dgc_clip_by_norm", Name: "never", Attrs: attrs{"max_norm": float32(2.5)}, Inputs: slots{"X": One(Floats(dims{2}, 3, -4)), "current_step": One(Floats(dims{1}, 2))},
		Want: slots{"Out": One(Floats(dims{2}, 3, -4))}},
	{Type: "squared_l2_norm", Inputs: slots{"X": One(Floats(dims{3, 1}, 3, -4, 0.5))}, Want: slots{"Out": One(Floats(dims{1}, 25.25))}},
	{Type: "squared_l2_norm", Name: "of nothing", Inputs: slots{"X": One(Floats(dims{0}))}, Want: slots{"Out": One(Floats(dims{1}, 0))}},
	{Type: "squared_l2_norm_partial", Inputs: slots{"X": One(Floats(dims{2}, 3, -4))}, Want: slots{"Out": One(words(5))}},
	{Type: "clip", Name: "rows", Attrs: attrs{"min": float32(-1), "max": float32(1.5)}, Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(4, []int64{3, 0, 3}, dims{3, 1}, -3, 0.5, 2.5))}, Want: slots{"Out": One(Rows(4, []int64{0, 3, 4}, dims{3, 1}, 0.5, -0.5, 0))}},
	{Type: "clip", Name: "rising rows", Attrs: attrs{"min": float32(-1), "max": float32(1.5)}, Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(4, []int64{0, 2}, dims{2, 1}, -3, 0.5))}, Want: slots{"Out": One(Rows(4, []int64{0, 2}, dims{2, 1}, -1, 0.5))}},
	{Type: "clip_by_norm", Name: "rows", Attrs: attrs{"max_norm": float32(2.5)}, Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(4, []int64{3, 0}, dims{2, 1}, 3, -4))}, Want: slots{"Out": One(Rows(4, []int64{0, 3}, dims{2, 1}, -2, 1.5))}},
	{Type: "squared_l2_norm", Name: "rows", Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(4, []int64{3, 0, 3}, dims{3, 1}, 1, -4, 2))}, Want: slots{"Out": One(Floats(dims{1}, 25))}},
	{Type: "squared_l2_norm_partial", Name: "rows", Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(4, []int64{3, 0, 3}, dims{3, 1}, 1, -4, 2))}, Want: slots{"Out": One(words(5))}},
	{Type: "squared_l2_norm_merge", Attrs: attrs{"dtype": int32(tensor.Float64)}, Inputs: slots{"X": One(words(3), words(4, 12))},
		Want: slots{"Out": One(Floats(dims{1}, 169))}},
}

func TestClipRefusesAnEmptyRange(t *testing.T) {
	for _, low := range []float32{2, float32(math.NaN())} {
		c := Case{Type: "clip", Attrs: attrs{"min": low, "max": float32(1)}, Inputs: slots{"X": One(matrix)}}
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("min %v, max 1: %v", low, err)
		}
	}
}

// What limits a sparse gradient may not change rows that it does not hold.
func TestLimitsOfRowsThatAreNotThere(t *testing.T) {
	rows := One(Rows(4, []int64{3}, dims{1, 2}, 1, 2))
	for _, c := range []Case{
		{Type: "clip", Attrs: attrs{"min": float32(0.5), "max": float32(1)}, Inputs: slots{"X": rows}},
		{Type: "clip", Attrs: attrs{"min": float32(-2), "max": float32(-1)}, Inputs: slots{"X": rows}},
		{Type: "elementwise_mul", Attrs: attrs{"axis": int32(-1)}, Inputs: slots{"X": rows, "Y": One(Floats(dims{2}, 3, 4))}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.ShapeMismatch {
			t.Errorf("%s %v: %v", c.Type, c.Attrs, err)
		}
	}
}

// TestSquaredNormOfSlices is what lets servers clip by a global norm without changing a bit.
func TestSquaredNormOfSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32(), 1, 40).Draw(t, "x")
		vars := map[string]*tensor.Tensor{}
		whole := &program.Op{Type: "squared_l2_norm", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"whole"}}}
		merge := &program.Op{Type: "squared_l2_norm_merge", Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {"merged"}},
			Attrs: attrs{"dtype": int32(tensor.Float32)}}
		vars["x"], _ = tensor.FromSlice(x)
		list := []*program.Op{whole}
		for from := 0; from < len(x); {
			to := rapid.IntRange(from+1, len(x)).Draw(t, "to")
			slice, part := fmt.Sprint("slice", from), fmt.Sprint("part", from)
			vars[slice], _ = tensor.FromSlice(x[from:to])
			list = append(list, &program.Op{Type: "squared_l2_norm_partial", Inputs: map[string][]string{"X": {slice}},
				Outputs: map[string][]string{"Out": {part}}})
			merge.Inputs["X"] = append([]string{part}, merge.Inputs["X"]...)
			from = to
		}
		m := NewInterpreter(vars, ops.Step{})
		if err := m.Run(context.Background(), append(list, merge)...); err != nil {
			t.Fatal(err)
		}
		got, want := math.Float32bits(vars["merged"].Float32s()[0]), math.Float32bits(vars["whole"].Float32s()[0])
		if got != want {
			t.Fatalf("merged %x, whole %x", got, want)
		}
	})
}
