package nn_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var drawnCases = []Case{
	{Type: "gather_tree", Inputs: slots{"Ids": One(Ints(dims{3, 1, 2}, 2, 2, 6, 1, 3, 9)), "Parents": One(Ints(dims{3, 1, 2}, 0, 0, 1, 1, 0, 1))}, Want: slots{"Out": One(Ints(dims{3, 1, 2}, 2, 2, 6, 1, 3, 9))}},
	{Type: "gather_tree", Name: "crossing", Inputs: slots{"Ids": One(Int32s(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)), "Parents": One(Int32s(dims{2, 2, 2}, 0, 0, 0, 0, 1, 1, 1, 0))},
		Want: slots{"Out": One(Int32s(dims{2, 2, 2}, 2, 2, 4, 3, 5, 6, 7, 8))}},
	{Type: "similarity_focus", Attrs: attrs{"axis": int32(1), "indexes": []int32{0}}, Inputs: slots{"X": One(Floats(dims{1, 2, 2, 2}, 0.8, 0.1, 0.4, 0.5, 9, 9, 9, 9))}, Want: slots{"Out": One(Floats(dims{1, 2, 2, 2}, 1, 0, 0, 1, 1, 0, 0, 1))}},
	{Type: "similarity_focus", Name: "last axis", Attrs: attrs{"axis": int32(3), "indexes": []int32{0, 1}}, Inputs: slots{"X": One(Spread(1, 2, 3, 2, 2))}},
	{Type: "multinomial", Attrs: attrs{"num_samples": int32(2)}, Inputs: slots{"X": One(Floats(dims{2, 3}, 0, 1, 2, 3, 4, 0))}},
	{Type: "multinomial", Name: "again", Attrs: attrs{"num_samples": int32(4), "replacement": true}, Inputs: slots{"X": One(Floats(dims{2}, 0, 1))}, Want: slots{"Out": One(Ints(dims{4}, 1, 1, 1, 1))}},
	{Type: "shuffle_batch", Inputs: slots{"X": One(Spread(1, 5, 2)), "Seed": One(Ints(dims{1}, 7))}, Want: slots{"SeedOut": One(Ints(dims{1}, 7))}},
}

// Parts of a batch draw what the whole does, no column twice, and each as often as its weight says.
func TestMultinomialDrawsByWeight(t *testing.T) {
	const rows = 6000
	values := slices.Repeat([]float64{1, 0, 3}, rows)
	draw := func(first, n int64, step ops.Step) []int64 {
		x, err := tensor.FromSlice(values[3*first:3*(first+n)], n, 3)
		if err != nil {
			t.Fatal(err)
		}
		m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, step)
		op := &program.Op{Type: "multinomial", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"out"}}, Attrs: attrs{"num_samples": int32(1)}}
		if err := m.Run(context.Background(), op); err != nil {
			t.Fatal(err)
		}
		return m.Vars["out"].Int64s()
	}
	whole := draw(0, rows, ops.Step{Round: 3, Rows: rows})
	if part := draw(1000, 2000, ops.Step{Round: 3, RowOffset: 1000, Rows: 2000}); !slices.Equal(part, whole[1000:3000]) {
		t.Error("a part of the batch draws something else")
	}
	counts := [3]int{}
	for _, v := range whole {
		counts[v]++
	}
	if share := float64(counts[2]) / rows; counts[1] != 0 || share < 0.72 || share > 0.78 {
		t.Errorf("drawn %v, want shares of 1/4, 0 and 3/4", counts)
	}
	if next := draw(0, rows, ops.Step{Round: 4, Rows: rows}); slices.Equal(next, whole) {
		t.Error("the next step draws the same")
	}
}

func TestDrawsThatDoNotFit(t *testing.T) {
	for _, c := range []Case{
		{Type: "multinomial", Attrs: attrs{"num_samples": int32(2)}, Inputs: slots{"X": One(Floats(dims{1, 3}, 0, 1, 0))}},
		{Type: "multinomial", Inputs: slots{"X": One(Floats(dims{1, 2}, -1, 1))}},
		{Type: "multinomial", Attrs: attrs{"num_samples": int32(3)}, Inputs: slots{"X": One(Floats(dims{1, 2}, 1, 1))}},
		{Type: "gather_tree", Inputs: slots{"Ids": One(Ints(dims{2, 1, 1}, 1, 2)), "Parents": One(Ints(dims{2, 1, 1}, 0, 1))}},
		{Type: "similarity_focus", Attrs: attrs{"axis": int32(1), "indexes": []int32{2}}, Inputs: slots{"X": One(Spread(1, 1, 2, 1, 1))}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
