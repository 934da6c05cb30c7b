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

var cropCases = []Case{
	{Type: "random_crop", Attrs: attrs{"shape": []int32{2}}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Seed": One(Ints(dims{1}, 5))}, Want: slots{"Out": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "SeedOut": One(Ints(dims{1}, 5))}},
	{Type: "random_crop", Name: "records", Attrs: attrs{"shape": []int32{2, 1}}, Inputs: slots{"X": One(Spread(1, 2, 2, 3, 3)), "Seed": One(Ints(dims{1}, 5))}},
}

// Each record is a part of its own, and parts of a batch are cut as in the whole.
func TestRandomCrop(t *testing.T) {
	const rows = 200
	crop := func(first, n int64, step ops.Step) []int64 {
		var values []int64
		for i := first; i < first+n; i++ {
			for k := range int64(12) {
				values = append(values, 100*i+k)
			}
		}
		x, err := tensor.FromSlice(values, n, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		m := NewInterpreter(map[string]*tensor.Tensor{"x": x, "seed": Ints(dims{1}, 1)}, step)
		op := &program.Op{Type: "random_crop", Inputs: map[string][]string{"X": {"x"}, "Seed": {"seed"}}, Outputs: map[string][]string{"Out": {"out"}, "SeedOut": {"next"}}, Attrs: attrs{"shape": []int32{2, 3}}}
		if err := m.Run(context.Background(), op); err != nil {
			t.Fatal(err)
		}
		return m.Vars["out"].Int64s()
	}
	whole := crop(0, rows, ops.Step{Round: 3, Rows: rows})
	places := map[int64]int{}
	for i := range int64(rows) {
		got, first := whole[6*i:6*i+6], whole[6*i]-100*i
		places[first]++
		for k, v := range got {
			if want := 100*i + first + int64(k/3)*4 + int64(k%3); v != want {
				t.Fatalf("record %d is %v", i, got)
			}
		}
	}
	if len(places) != 4 || places[0] < 20 || places[5] < 20 {
		t.Errorf("parts begin at %v, want each of 0, 1, 4 and 5 often", places)
	}
	if part := crop(50, 70, ops.Step{Round: 3, RowOffset: 50, Rows: 70}); !slices.Equal(part, whole[6*50:6*120]) {
		t.Error("a part of the batch is cut elsewhere")
	}
	middle := Case{Type: "random_crop", Attrs: attrs{"shape": []int32{1, 2}, "is_test": true}, Inputs: slots{"X": One(Floats(dims{1, 3, 5}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)), "Seed": One(Ints(dims{1}, 5))},
		Want: slots{"Out": One(Floats(dims{1, 1, 2}, 7, 8)), "SeedOut": One(Ints(dims{1}, 5))}}
	if err := Golden(middle); err != nil {
		t.Error(err)
	}
	for _, shape := range [][]int32{{}, {5}, {0}, {1, 1, 1}} {
		c := Case{Type: "random_crop", Attrs: attrs{"shape": shape}, Inputs: slots{"X": One(Floats(dims{1, 2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)), "Seed": One(Ints(dims{1}, 5))}}
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", shape, err)
		}
	}
}
