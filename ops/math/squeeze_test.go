package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var viewCases = []Case{
	viewed("squeeze", attrs{"axes": []int32{1, -1}}, dims{2, 1, 3, 1}, dims{2, 3}),
	viewed("squeeze2", attrs{"axes": []int32{1}}, dims{2, 1, 3, 1}, dims{2, 3, 1}),
	viewed("squeeze2", attrs{"axes": []int32{-4}}, dims{1, 2, 3, 1}, dims{2, 3, 1}),
	viewed("unsqueeze", attrs{"axes": []int32{0}}, dims{2, 3}, dims{1, 2, 3}),
	viewed("unsqueeze2", attrs{"axes": []int32{1, -1}}, dims{2, 3}, dims{2, 1, 3, 1}),
	viewed("unsqueeze2", attrs{"axes": []int32{}}, dims{2, 3}, dims{2, 3}),
	viewed("flatten", nil, dims{2, 3, 2}, dims{2, 6}),
	viewed("flatten2", attrs{"axis": int32(2)}, dims{2, 3, 2}, dims{6, 2}),
	viewed("flatten2", attrs{"axis": int32(0)}, dims{2, 3}, dims{1, 6}),
	viewed("flatten2", attrs{"axis": int32(2)}, dims{2, 3}, dims{6, 1}),
	viewed("flatten_contiguous_range", attrs{"start_axis": int32(1), "stop_axis": int32(-1)}, dims{2, 3, 2}, dims{2, 6}),
	viewed("flatten_contiguous_range", attrs{"start_axis": int32(1), "stop_axis": int32(2)}, dims{2, 3, 2, 2}, dims{2, 6, 2}),
	viewed("flatten_contiguous_range", nil, dims{2, 3}, dims{2, 3}),
}

// viewed gives the elements of x other dims.
func viewed(op string, a attrs, x, want dims) Case {
	from := Spread(3, x...)
	return Case{Type: op, Name: from.String(), Attrs: a, Inputs: slots{"X": One(from)}, Want: slots{"Out": One(Floats(want, from.Float64s()...))}}
}

// metaOf infers the output Out of an op on an X of these dims.
func metaOf(t *testing.T, opType string, a attrs, x ...int64) (ops.Meta, *ops.Shapes, error) {
	t.Helper()
	op := &program.Op{Type: opType, Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"out"}}, Attrs: a}
	s, err := ops.Infer(op, func(string) (ops.Meta, bool) {
		return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: x, LoDLevel: 1, LoDOf: "x"}, true
	})
	if err != nil {
		return ops.Meta{}, nil, err
	}
	return s.Outs("Out")[0], s, nil
}

func TestSqueezeWithoutAxesRemovesEveryExtentOfOne(t *testing.T) {
	if err := Golden(viewed("squeeze2", nil, dims{1, 2, 1, 3}, dims{2, 3})); err != nil {
		t.Error(err)
	}
	if err := Golden(viewed("squeeze", attrs{"axes": []int32{0, 1}}, dims{1, 2}, dims{2})); err != nil {
		t.Errorf("an axis of another extent stays: %v", err)
	}
	if m, _, err := metaOf(t, "squeeze2", nil, -1, 1, 5); err != nil || !ops.Compatible(m.Dims, []int64{-1, 5}) || m.LoDLevel != 1 {
		t.Errorf("an open batch: %v, %v", m, err)
	}
}

// Views that keep axis 0 keep its sequences, too, and trainers may divide the batch.
func TestViewsKeepTheRowsOfABatchOrSayThatTheyDoNot(t *testing.T) {
	for _, c := range []struct {
		op    string
		attrs attrs
		x     dims
		lod   int
		mixes bool
	}{
		{"squeeze2", attrs{"axes": []int32{1}}, dims{-1, 1, 3}, 1, false},
		{"squeeze2", attrs{"axes": []int32{0}}, dims{1, 4}, 0, true},
		{"squeeze2", attrs{"axes": []int32{-2}}, dims{1, 4}, 0, true},
		{"squeeze2", nil, dims{-1, 1}, 1, true}, // a batch of one row would lose its axis
		{"squeeze2", nil, dims{4, 1}, 1, false},
		{"unsqueeze2", attrs{"axes": []int32{1}}, dims{-1, 3}, 1, false},
		{"unsqueeze2", attrs{"axes": []int32{0}}, dims{-1, 3}, 0, true},
		{"unsqueeze2", attrs{"axes": []int32{-3}}, dims{-1, 3}, 0, true},
		{"flatten2", nil, dims{-1, 3, 2}, 1, false},
		{"flatten2", attrs{"axis": int32(2)}, dims{5, 3, 2}, 0, false}, // each row becomes three
		{"flatten2", attrs{"axis": int32(0)}, dims{-1, 3}, 0, true},
		{"flatten_contiguous_range", attrs{"stop_axis": int32(-1)}, dims{-1, 3, 2}, 1, false},
		{"flatten_contiguous_range", attrs{"start_axis": int32(0), "stop_axis": int32(-1)}, dims{5, 3, 2}, 0, false},
	} {
		m, s, err := metaOf(t, c.op, c.attrs, c.x...)
		if err != nil {
			t.Errorf("%s of %v: %v", c.op, c.x, err)
			continue
		}
		def, _ := ops.Lookup(c.op)
		if mixes := def.MixesRows(s, func(string) bool { return true }); mixes != c.mixes || m.LoDLevel != c.lod {
			t.Errorf("%s of %v with %v: mixes rows %v, %d levels of sequences; want %v, %d", c.op, c.x, c.attrs, mixes, m.LoDLevel, c.mixes, c.lod)
		}
	}
}

func TestViewsRefuseAxesThatXDoesNotHave(t *testing.T) {
	for _, c := range []Case{
		viewed("squeeze2", attrs{"axes": []int32{2}}, dims{1, 2}, dims{2}),
		viewed("unsqueeze2", attrs{"axes": []int32{4}}, dims{1, 2}, dims{2}),
		viewed("unsqueeze2", attrs{"axes": make([]int32, 40)}, dims{1, 2}, dims{2}),
		viewed("flatten2", attrs{"axis": int32(-1)}, dims{1, 2}, dims{2}),
		viewed("flatten_contiguous_range", attrs{"start_axis": int32(1), "stop_axis": int32(0)}, dims{1, 2}, dims{2}),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v with %v: %v", c, c.Attrs, err)
		}
	}
}
