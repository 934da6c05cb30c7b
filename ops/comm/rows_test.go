package comm_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// bindScratch is bind with memory for what the kernel keeps to itself.
func bindScratch(t testing.TB, op *program.Op, in, out map[string][]*tensor.Tensor) (ops.Kernel, error) {
	def, _ := ops.Lookup(op.Type)
	return def.Bind(ops.NewBinding(op, def, nil, in, out, func(dtype tensor.DType, n int) *tensor.Tensor { return zeros(t, dtype, int64(n)) }))
}

func zeros(t testing.TB, dtype tensor.DType, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func runRows(t *rapid.T, op *program.Op, in, out map[string][]*tensor.Tensor) {
	kernel, err := bindScratch(panicking{}, op, in, out)
	if err == nil {
		err = kernel(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// panicking is a testing.TB for code under rapid, which reports panics.
type panicking struct{ testing.TB }

func (panicking) Helper()           {}
func (panicking) Fatal(args ...any) { panic(args) }

func rowsOp(opType string, in, out args) *program.Op {
	return &program.Op{Type: opType, Inputs: in, Outputs: out, Attrs: attrs{}}
}

// A sparse gradient goes through all four ops, as it does from trainers to servers and back: each run has the sums of its rows, a server has them as a
// sparse gradient, and the rows that it changes come to their place in the table.
func TestRowsThereAndBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sections := rapid.SliceOfN(rapid.Int32Range(0, 6), 1, 4).Draw(rt, "sections")
		width, height := rapid.Int64Range(1, 4).Draw(rt, "width"), int64(0)
		for _, n := range sections {
			height += int64(n)
		}
		var rows []int64
		if height > 0 {
			rows = rapid.SliceOfN(rapid.Int64Range(0, height-1), 0, 1500).Draw(rt, "rows")
		}
		value := zeros(t, tensor.Float32, int64(len(rows)), width)
		dense := make([]float32, height*width)
		for i, row := range rows {
			for j := range width {
				x := rapid.Float32Range(-1, 1).Draw(rt, "x")
				value.Float32s()[int64(i)*width+j] = x
				dense[row*width+j] += x
			}
		}
		gradient, err := (&tensor.SelectedRows{Rows: rows, Height: height, Value: value}).Tensor()
		if err != nil {
			rt.Fatal(err)
		}
		table := zeros(t, tensor.Float32, height, width)
		for i := range table.Float32s() {
			table.Float32s()[i] = float32(i)
		}

		split := rowsOp("split_selected_rows", args{"X": {"x"}}, args{"Out": {"o"}})
		split.Attrs["sections"] = sections
		split.Outputs["Out"] = slices.Repeat([]string{"o"}, len(sections))
		var forms, changed []*tensor.Tensor
		for _, n := range sections {
			forms = append(forms, zeros(t, tensor.Int32, compress.RowsDims(int64(n), width)...))
			changed = append(changed, zeros(t, tensor.Int32, compress.RowsDims(int64(n), width)...))
		}
		runRows(rt, split, map[string][]*tensor.Tensor{"X": {gradient}}, map[string][]*tensor.Tensor{"Out": forms})

		first, want := int64(0), table.Clone()
		for i, n := range sections {
			server, err := (&tensor.SelectedRows{Rows: make([]int64, n), Height: int64(n), Value: zeros(t, tensor.Float32, int64(n), width)}).Tensor()
			if err != nil {
				rt.Fatal(err)
			}
			runRows(rt, rowsOp("get_selected_rows", args{"X": {"x"}}, args{"Out": {"o"}}), map[string][]*tensor.Tensor{"X": {forms[i]}},
				map[string][]*tensor.Tensor{"Out": {server}})
			mine := slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(rows), func(row int64) bool {
				return row < first || row >= first+int64(n)
			}))))
			used := tensor.UsedRows(server)
			for k, row := range used {
				if row+first != mine[k] || !slices.Equal(server.Float32s()[int64(k)*width:][:width], dense[(first+row)*width:][:width]) {
					rt.Fatalf("row %d of run %d: %v, want row %d %v", row, i, server.Float32s()[int64(k)*width:][:width], mine[k], dense[(first+row)*width:][:width])
				}
			}
			if len(used) != len(mine) {
				rt.Fatalf("%d rows in run %d, want %d", len(used), i, len(mine))
			}
			part := zeros(t, tensor.Float32, int64(n), width)
			for k := range part.Float32s() {
				part.Float32s()[k] = -1 - float32(k)
			}
			for _, row := range used {
				copy(want.Float32s()[(first+row)*width:][:width], part.Float32s()[row*width:])
			}
			runRows(rt, rowsOp("gather_rows", args{"X": {"x"}, "Rows": {"r"}}, args{"Out": {"o"}}),
				map[string][]*tensor.Tensor{"X": {part}, "Rows": {forms[i]}}, map[string][]*tensor.Tensor{"Out": {changed[i]}})
			first += int64(n)
		}
		to := table
		if rapid.Bool().Draw(rt, "another variable") {
			to = zeros(t, tensor.Float32, height, width)
		}
		runRows(rt, rowsOp("scatter_rows", args{"X": {"x"}, "Rows": slices.Repeat([]string{"r"}, len(sections))}, args{"Out": {"o"}}),
			map[string][]*tensor.Tensor{"X": {table}, "Rows": changed}, map[string][]*tensor.Tensor{"Out": {to}})
		if !slices.Equal(to.Float32s(), want.Float32s()) {
			rt.Fatalf("the table is %v, want %v", to.Float32s(), want.Float32s())
		}
	})
}

// Rows that a peer has sent may be anything: no kernel leaves its table.
func TestRowsThatCannotBe(t *testing.T) {
	form := zeros(t, tensor.Int32, compress.RowsDims(3, 2)...)
	table, server := zeros(t, tensor.Float32, 3, 2), zeros(t, tensor.Float32, 3, 2)
	numbers := zeros(t, tensor.Int64, 3)
	selected, err := tensor.Select(server, numbers, 3)
	if err != nil {
		t.Fatal(err)
	}
	kernels := map[string]ops.Kernel{}
	for _, c := range []struct {
		op      *program.Op
		in, out map[string][]*tensor.Tensor
	}{
		{rowsOp("get_selected_rows", args{"X": {"x"}}, args{"Out": {"o"}}), map[string][]*tensor.Tensor{"X": {form}}, map[string][]*tensor.Tensor{"Out": {selected}}},
		{rowsOp("gather_rows", args{"X": {"x"}, "Rows": {"r"}}, args{"Out": {"o"}}), map[string][]*tensor.Tensor{"X": {table}, "Rows": {form}},
			map[string][]*tensor.Tensor{"Out": {form.Clone()}}},
		{rowsOp("scatter_rows", args{"X": {"x"}, "Rows": {"r"}}, args{"Out": {"o"}}), map[string][]*tensor.Tensor{"X": {table}, "Rows": {form}},
			map[string][]*tensor.Tensor{"Out": {table}}},
	} {
		if kernels[c.op.Type], err = bindScratch(t, c.op, c.in, c.out); err != nil {
			t.Fatal(err)
		}
	}
	for _, start := range [][]int32{{-1}, {4}, {1, -1}, {1, 3}, {2, 1, 1}, {2, 2, 0}} {
		copy(form.Int32s(), start)
		for name, kernel := range kernels {
			if err := kernel(t.Context()); !errors.Is(err, fault.Corrupt) {
				t.Errorf("%s of rows %v: %v", name, start, err)
			}
		}
	}
}

// Programs may name these ops with anything.
func TestRowsInference(t *testing.T) {
	rows := ops.Meta{Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{5, 2}, Rows: program.Unknown}
	form := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{6, 3}}
	table := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{5, 2}}
	other := func(m ops.Meta, change func(*ops.Meta)) ops.Meta {
		m.Dims = slices.Clone(m.Dims)
		change(&m)
		return m
	}
	split := func(sections ...int32) *program.Op {
		op := rowsOp("split_selected_rows", args{"X": {"x"}}, args{"Out": {"a", "b"}})
		op.Attrs["sections"] = sections
		return op
	}
	scatter := rowsOp("scatter_rows", args{"X": {"x"}, "Rows": {"r"}}, args{"Out": {"o"}})
	gather := rowsOp("gather_rows", args{"X": {"x"}, "Rows": {"r"}}, args{"Out": {"o"}})
	get := rowsOp("get_selected_rows", args{"X": {"x"}}, args{"Out": {"o"}})
	for name, c := range map[string]struct {
		op   *program.Op
		x, r ops.Meta
		good bool
	}{
		"split":                        {split(2, 3), rows, form, true},
		"split with a row too few":     {split(2, 2), rows, form, false},
		"split with a row too many":    {split(2, 4), rows, form, false},
		"split with negative rows":     {split(6, -1), rows, form, false},
		"split into one of two":        {split(5), rows, form, false},
		"split a dense tensor":         {split(2, 3), table, form, false},
		"split of float64":             {split(2, 3), other(rows, func(m *ops.Meta) { m.DType = tensor.Float64 }), form, false},
		"split of rank 3":              {split(2, 3), other(rows, func(m *ops.Meta) { m.Dims = append(m.Dims, 2) }), form, false},
		"get":                          {get, form, form, true},
		"get of float32":               {get, table, form, false},
		"get without room for a count": {get, other(form, func(m *ops.Meta) { m.Dims[0] = 0 }), form, false},
		"get of open dims":             {get, other(form, func(m *ops.Meta) { m.Dims[0] = program.Unknown }), form, false},
		"gather":                       {gather, table, form, true},
		"gather of another width":      {gather, table, other(form, func(m *ops.Meta) { m.Dims[1] = 4 }), false},
		"gather of another height":     {gather, table, other(form, func(m *ops.Meta) { m.Dims[0] = 7 }), false},
		"scatter":                      {scatter, table, form, true},
		"scatter fewer rows":           {scatter, table, other(form, func(m *ops.Meta) { m.Dims[0] = 5 }), false},
		"scatter into rows":            {scatter, form, form, false},
	} {
		_, err := ops.Infer(c.op, func(name string) (ops.Meta, bool) {
			if name == "r" {
				return c.r, true
			}
			return c.x, true
		})
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
