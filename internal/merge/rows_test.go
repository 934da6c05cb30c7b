package merge_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// rowsOf makes a contribution of rows of a table.
func rowsOf(t testing.TB, height, width int64, numbers []int32, x []float32) *tensor.Tensor {
	v, err := tensor.New(tensor.Int32, compress.RowsDims(height, width)...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Int32s() {
		v.Int32s()[i] = -77 // what is not in use has no meaning
	}
	form, ok := compress.RowsOf(v)
	if !ok {
		t.Fatal("no rows")
	}
	to, values := form.Begin(len(numbers))
	copy(to, numbers)
	copy(values, x)
	return v
}

// Contributions of rows merge to what the tables with zeros between them merge to, and the merge has the rows that a contribution has.
func TestRowsMergeAsTheirTables(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		how := rapid.SampledFrom([]ops.Merge{ops.MergeMean, ops.MergeSum}).Draw(rt, "how")
		height, width := rapid.Int64Range(0, 40).Draw(rt, "height"), rapid.Int64Range(0, 5).Draw(rt, "width")
		var sparse, dense []merge.Share
		have := map[int32]bool{}
		for range rapid.IntRange(1, 4).Draw(rt, "trainers") {
			var numbers []int32
			var some []float32
			x := make([]float32, height*width)
			for row := range height {
				if !rapid.Bool().Draw(rt, "row") {
					continue
				}
				numbers, have[int32(row)] = append(numbers, int32(row)), true
				for i := range width {
					x[row*width+i] = rapid.Float32Range(-3, 3).Draw(rt, "x") + 0 // a sum of places is never -0
					some = append(some, x[row*width+i])
				}
			}
			rows := rapid.Int64Range(1, 100).Draw(rt, "rows")
			sparse = append(sparse, merge.Share{Value: rowsOf(t, height, width, numbers, some), Rows: rows})
			dense = append(dense, merge.Share{Value: of(t, x...), Rows: rows})
		}
		merged, want := rowsOf(t, height, width, nil, nil), of(t, make([]float32, height*width)...)
		if err := errors.Join(merge.Gradients(merged, sparse, how), merge.Gradients(want, dense, how)); err != nil {
			rt.Fatal(err)
		}
		form, _ := compress.RowsOf(merged)
		if err := form.Check(); err != nil {
			rt.Fatal(err)
		}
		numbers, values, _ := form.Used()
		if len(numbers) != len(have) {
			rt.Fatalf("%d rows, want %d", len(numbers), len(have))
		}
		got := make([]float32, height*width)
		for i, row := range numbers {
			copy(got[int64(row)*width:], values[int64(i)*width:][:width])
		}
		for i, w := range want.Float32s() {
			if math.Float32bits(got[i]) != math.Float32bits(w) {
				rt.Fatalf("element %d is %v, want %v", i, got[i], w)
			}
		}
	})
}

// A peer may send any rows: none reaches memory that is not the table's.
func TestMergeRefusesRowsThatCannotBe(t *testing.T) {
	dst := rowsOf(t, 3, 2, nil, nil)
	good := rowsOf(t, 3, 2, []int32{0, 2}, []float32{1, 2, 3, 4})
	for name, spoil := range map[string]func(all []int32){
		"more than there is room for": func(all []int32) { all[0] = 4 },
		"less than none":              func(all []int32) { all[0] = -1 },
		"a row twice":                 func(all []int32) { all[2] = 0 },
		"a row below the table":       func(all []int32) { all[1] = -1 },
		"a row behind the table":      func(all []int32) { all[2] = 3 },
		"rows in disorder":            func(all []int32) { all[1], all[2] = 2, 0 },
	} {
		bad := rowsOf(t, 3, 2, []int32{0, 2}, []float32{1, 2, 3, 4})
		spoil(bad.Int32s())
		for _, shares := range [][]merge.Share{{{Value: bad, Rows: 1}}, {{Value: good, Rows: 1}, {Value: bad, Rows: 1}}} {
			if err := merge.Gradients(dst, shares, ops.MergeSum); !errors.Is(err, fault.Corrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
		form, _ := compress.RowsOf(bad)
		if err := form.Check(); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s is taken: %v", name, err)
		}
	}
	for _, other := range []*tensor.Tensor{rowsOf(t, 2, 3, nil, nil), rowsOf(t, 3, 3, nil, nil), of(t, make([]float32, 12)...)} {
		if err := merge.Gradients(dst, []merge.Share{{Value: good, Rows: 1}, {Value: other, Rows: 1}}, ops.MergeMean); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("rows of another table, %v: %v", other, err)
		}
	}
}

// A room merges rows as Gradients does, with room for what is there, also where shares have more or less room than the merge.
func TestRoomsMergeAsGradients(t *testing.T) {
	var room merge.RowsRoom
	rapid.Check(t, func(rt *rapid.T) {
		how := rapid.SampledFrom([]ops.Merge{ops.MergeMean, ops.MergeSum}).Draw(rt, "how")
		height, width := rapid.Int64Range(1, 30).Draw(rt, "height"), rapid.Int64Range(1, 4).Draw(rt, "width")
		var small, whole []merge.Share
		for range rapid.IntRange(1, 4).Draw(rt, "devices") {
			var numbers []int32
			for row := range int32(height) {
				if rapid.Bool().Draw(rt, "row") {
					numbers = append(numbers, row)
				}
			}
			x := make([]float32, int64(len(numbers))*width)
			for i := range x {
				x[i] = rapid.Float32Range(-9, 9).Draw(rt, "element")
			}
			rows := rapid.Int64Range(1, 9).Draw(rt, "rows")
			small = append(small, merge.Share{Value: rowsOf(t, int64(len(numbers)), width, numbers, x), Rows: rows})
			whole = append(whole, merge.Share{Value: rowsOf(t, height, width, numbers, x), Rows: rows})
		}
		got, err := room.Merge(small, how)
		if err != nil {
			rt.Fatal(err)
		}
		want := rowsOf(t, height, width, nil, nil)
		if err := merge.Gradients(want, whole, how); err != nil {
			rt.Fatal(err)
		}
		if want, err = compress.RowsInUse(want); err != nil {
			rt.Fatal(err)
		}
		used, err := compress.RowsInUse(got)
		if err != nil || !slices.Equal(used.Int32s(), want.Int32s()) || got.Dims()[0] != 1+int64(want.Int32s()[0]) {
			rt.Fatalf("%v, %v; want %v", used.Int32s(), err, want.Int32s())
		}
	})
	if _, err := room.Merge([]merge.Share{{Value: rowsOf(t, 2, 1, nil, nil), Rows: 1}, {Value: rowsOf(t, 2, 2, nil, nil), Rows: 1}}, ops.MergeSum); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("two widths: %v", err)
	}
	if _, err := room.Merge(nil, ops.MergeSum); err == nil {
		t.Error("a merge of nothing")
	}
}
