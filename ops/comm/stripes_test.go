package comm_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// drawRuns draws the lengths of runs of a table, and their sum, which is at least 1.
func drawRuns(t *rapid.T) (sections []int32, height int64) {
	sections = rapid.SliceOfN(rapid.Int32Range(0, 400), 1, 4).Draw(t, "sections")
	sections[0]++
	for _, n := range sections {
		height += int64(n)
	}
	return sections, height
}

// stripe_rows puts rows in the order of stripes, in which row stripes.Row(i) is the i-th, and with inverse back.
func TestStripeRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, height := drawRuns(rt)
		const width = 3
		table, striped, back := zeros(t, tensor.Float32, height, width), zeros(t, tensor.Float32, height, width), zeros(t, tensor.Float32, height, width)
		for i := range table.Float32s() {
			table.Float32s()[i] = float32(i)
		}
		op := rowsOp("stripe_rows", args{"X": {"w"}}, args{"Out": {"s"}})
		runRows(rt, op, map[string][]*tensor.Tensor{"X": {table}}, map[string][]*tensor.Tensor{"Out": {striped}})
		stripes := kernel.StripesOf(height)
		for i := range height {
			if got, want := striped.Float32s()[i*width], float32(stripes.Row(i)*width); got != want {
				rt.Fatalf("row %d of %d begins with %v, want %v", i, height, got, want)
			}
		}
		op.SetAttr("inverse", true)
		runRows(rt, op, map[string][]*tensor.Tensor{"X": {striped}}, map[string][]*tensor.Tensor{"Out": {back}})
		if !slices.Equal(back.Float32s(), table.Float32s()) {
			rt.Fatal("the inverse gives other rows")
		}
	})
	for name, meta := range map[string]ops.Meta{
		"a number":  {Kind: program.LoDTensor, DType: tensor.Float32},
		"open rows": {Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 2}},
		"rows":      {Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{4, 2}},
	} {
		op := rowsOp("stripe_rows", args{"X": {"w"}}, args{"Out": {"s"}})
		if _, err := ops.Infer(op, func(string) (ops.Meta, bool) { return meta, true }); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// What split_ids asks for, what split_selected_rows sends, and what scatter_rows takes, are rows of the order of stripes.
func TestStripedRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sections, height := drawRuns(rt)
		stripes := kernel.StripesOf(height)
		ids := rapid.SliceOfN(rapid.Int64Range(0, height-1), 1, 300).Draw(rt, "ids")
		n := int64(len(ids))
		places, runs, forms := zeros(t, tensor.Int64, n), make([]*tensor.Tensor, len(sections)), make([]*tensor.Tensor, len(sections))
		for i, rows := range sections {
			runs[i], forms[i] = zeros(t, tensor.Int32, n+1), zeros(t, tensor.Int32, compress.RowsDims(int64(rows), 1)...)
		}
		in, err := tensor.FromSlice(ids)
		if err != nil {
			rt.Fatal(err)
		}
		split := rowsOp("split_ids", args{"Ids": {"ids"}}, args{"Out": make([]string, len(sections)), "Places": {"p"}})
		split.SetAttr("sections", sections)
		split.SetAttr("striped", true)
		runRows(rt, split, map[string][]*tensor.Tensor{"Ids": {in}}, map[string][]*tensor.Tensor{"Out": runs, "Places": {places}})
		var asked []int64 // rows of the table, in the order of the small table
		first := int64(0)
		for i, rows := range sections {
			for _, number := range runs[i].Int32s()[1:][:runs[i].Int32s()[0]] {
				asked = append(asked, stripes.Row(first+int64(number)))
			}
			first += int64(rows)
		}
		for i, place := range places.Int64s() {
			if asked[place] != ids[i] {
				rt.Fatalf("id %d is at place %d of %v", ids[i], place, asked)
			}
		}
		if different := slices.Compact(slices.Sorted(slices.Values(ids))); !slices.Equal(different, slices.Sorted(slices.Values(asked))) {
			rt.Fatalf("%v are asked for, of %v", asked, different)
		}

		value, sums := zeros(t, tensor.Float32, n, 1), map[int64]float32{}
		for i, id := range ids {
			value.Float32s()[i] = float32(i)
			sums[id] += float32(i)
		}
		gradient, err := (&tensor.SelectedRows{Rows: ids, Height: height, Value: value}).Tensor()
		if err != nil {
			rt.Fatal(err)
		}
		cut := rowsOp("split_selected_rows", args{"X": {"g"}}, args{"Out": make([]string, len(sections))})
		cut.SetAttr("sections", sections)
		cut.SetAttr("striped", true)
		runRows(rt, cut, map[string][]*tensor.Tensor{"X": {gradient}}, map[string][]*tensor.Tensor{"Out": forms})
		whole := zeros(t, tensor.Float32, height, 1)
		back := rowsOp("scatter_rows", args{"X": {"x"}, "Rows": slices.Repeat([]string{"r"}, len(sections))}, args{"Out": {"x"}})
		back.SetAttr("striped", true)
		runRows(rt, back, map[string][]*tensor.Tensor{"X": {whole}, "Rows": forms}, map[string][]*tensor.Tensor{"Out": {whole}})
		for row, got := range whole.Float32s() {
			if got != sums[int64(row)] {
				rt.Fatalf("row %d comes back as %v, want %v", row, got, sums[int64(row)])
			}
		}
		first = 0
		for i, rows := range sections {
			form, _ := compress.RowsOf(forms[i])
			if err := form.Check(); err != nil {
				rt.Fatal(err)
			}
			numbers, values, _ := form.Used()
			for k, number := range numbers {
				row := stripes.Row(first + int64(number))
				if want, ok := sums[row]; !ok || values[k] != want {
					rt.Fatalf("row %d is %v, want %v", row, values[k], want)
				}
				delete(sums, row)
			}
			first += int64(rows)
		}
		if len(sums) > 0 {
			rt.Fatalf("rows %v are left", sums)
		}
	})
}
