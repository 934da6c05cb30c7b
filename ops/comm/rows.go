package comm

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file move rows of tables. Package compress says in what form rows travel.

const formDoc = "rows of a table as they travel: int32, or with keys int64, [1+rows, 1+width]"

func init() {
	ops.Register(ops.Def{
		Type:  "split_selected_rows",
		Class: ops.Compute,
		Doc: "Cuts a sparse gradient into runs of rows of its table, one for each pserver with a slice. The values of a row that repeats are summed, in " +
			"the order of the batch. In Fluid, rows that repeat stay so, and Out is of SelectedRows.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a sparse gradient of float32", Rows: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: formDoc + "; row numbers count from the first row of the run", Duplicable: true}},
		Attrs: []ops.Attr{{Name: "sections", Kind: []int32{}, Doc: "rows of the table in each run; their sum is all of them"},
			{Name: "room_for_all", Default: false, Doc: "make room for all rows of a run, so that Out can take others of them; else for those of X"}, stripedAttr, grownAttr},
		Infer: inferSplitRows,
		Cost:  opkit.PerElement(1),
		Bind:  bindSplitRows,
	})
	ops.Register(ops.Def{
		Type:    "get_selected_rows",
		Class:   ops.Compute,
		Doc:     "Makes a sparse gradient of rows as they travel.",
		Inputs:  []ops.Slot{{Name: "X", Doc: formDoc}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "a sparse gradient of float32, with room for all rows of its table", Rows: true}},
		Infer:   inferGetRows,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindWanted(bindGetRows, "Out"),
	})
	ops.Register(ops.Def{
		Type:  "gather_rows",
		Class: ops.Compute,
		Doc:   "Takes the rows of a table that Rows names.",
		Inputs: []ops.Slot{{Name: "X", Doc: "a table, [rows, width], of float32 or bfloat16", Stored: true},
			{Name: "Rows", Doc: formDoc + ", of which only the numbers count"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "these rows of X, like Rows"}},
		Infer:   inferGatherRows,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindWanted(bindGatherRows, "Out"),
	})
	ops.Register(ops.Def{
		Type:  "scatter_rows",
		Class: ops.Compute,
		Doc:   "Puts rows of runs of a table in their place. The other rows of the table stay as they are.",
		Inputs: []ops.Slot{{Name: "X", Doc: "a table, [rows, width], of float32 or bfloat16", Stored: true},
			{Name: "Rows", Doc: formDoc + ", one for each run of rows of X", Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the table with these rows, usually the variable of X"}},
		Attrs:   []ops.Attr{stripedAttr},
		InPlace: map[string]string{"Out": "X"},
		Infer:   inferScatterRows,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindWanted(bindScatterRows, "Out"),
	})
}

// isTable reports whether m is a float32 table of rank 2.
func isTable(m ops.Meta) bool { return m.DType == tensor.Float32 && len(m.Dims) == 2 }

// isStored reports whether m is a table of rank 2, of float32 or stored as bfloat16.
func isStored(m ops.Meta) bool {
	return (m.DType == tensor.Float32 || m.DType == tensor.BFloat16) && len(m.Dims) == 2
}

// isForm reports whether rows of a table may travel in m, of known dims.
func isForm(m ops.Meta) bool {
	return m.Kind == program.LoDTensor && (m.DType == tensor.Int32 || m.DType == tensor.Int64) && len(m.Dims) == 2 && m.Dims[0] > 0 && m.Dims[1] > 0 && m.Dims[0]-1 <= compress.MaxRows
}

func inferSplitRows(s *ops.Shapes) error {
	x, sections := s.In("X"), s.Ints("sections")
	if x.Kind != program.SelectedRows || !isTable(x) || slices.Contains(x.Dims, program.Unknown) {
		return s.Errorf("X", "rows of a float32 table of rank 2")
	}
	if len(sections) != len(s.Outs("Out")) {
		return opkit.BadAttr(s, "sections", "%d numbers of rows, one for each Out", len(s.Outs("Out")))
	}
	left, numbers := x.Dims[0], tensor.Int32
	if s.Bool("auto_grown_table") {
		if numbers = tensor.Int64; !wholeRegions(sections) {
			return opkit.BadAttr(s, "sections", "whole regions of a table with %d of them", kernel.KeyRegions)
		}
	}
	for i, n := range sections {
		if n < 0 || n > left || n > compress.MaxRows {
			return opkit.BadAttr(s, "sections", "numbers of rows whose sum is %d, the rows of the table", x.Dims[0])
		}
		left -= n
		room := n
		if !s.Bool("room_for_all") {
			room = min(n, x.Rows) // open if X is
		}
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: numbers, Dims: compress.RowsDims(room, x.Dims[1])})
	}
	if left != 0 {
		return opkit.BadAttr(s, "sections", "numbers of rows whose sum is %d, the rows of the table", x.Dims[0])
	}
	return nil
}

// formsOf returns the views of tensors, by compress.RowsOf or KeysOf. The memory of a tensor is fixed after it is bound, so kernels call it when they run.
func formsOf[N compress.Number](view func(*tensor.Tensor) (compress.SparseForm[N], bool), ts []*tensor.Tensor, width int) ([]compress.SparseForm[N], error) {
	forms := make([]compress.SparseForm[N], len(ts))
	for i, t := range ts {
		ok := t != nil
		if ok {
			forms[i], ok = view(t)
		}
		if !ok || forms[i].Width() != width {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", t), fault.Wantf("rows of width %d as they travel", width))
		}
	}
	return forms, nil
}

// refresh points views at the memory of their tensors.
func refresh[N compress.Number](view func(*tensor.Tensor) (compress.SparseForm[N], bool), forms []compress.SparseForm[N], ts []*tensor.Tensor) {
	for i, t := range ts {
		forms[i], _ = view(t)
	}
}

// mergedAtOnce is how many rows split_selected_rows merges before it converts their numbers.
const mergedAtOnce = 512

func bindSplitRows(b *ops.Binding) (ops.Kernel, error) {
	x, outs := b.In("X"), b.Outs("Out")
	rows, height := x.Selected()
	if rows == nil || x.DType() != tensor.Float32 || len(x.Dims()) != 2 {
		return nil, fault.E(fault.TypeMismatch, fault.Got(x.String()), fault.Want("a sparse gradient of float32"))
	}
	width := int(x.Dims()[1])
	if b.Bool("auto_grown_table") {
		return splitKeyRows(b, rows.Len(), height, width)
	}
	forms, err := formsOf(compress.RowsOf, outs, width)
	if err != nil {
		return nil, err
	}
	sections, total, n := b.Ints("sections"), int64(0), rows.Len()
	for i, f := range forms {
		if i < len(sections) && int64(f.Height()) >= min(sections[i], int64(n)) {
			total += sections[i]
		}
	}
	if total != height {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("room in runs of %d rows", total), fault.Wantf("all %d of the table", height))
	}
	if !kernel.OrderableRows(n, height) {
		return nil, fault.E(fault.TooLarge, fault.Var(b.Op().In("X")), fault.Gotf("%d rows of %d", n, height), fault.Want("a product of both below 2^62"))
	}
	order, spare, merged := b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, mergedAtOnce)
	var positions *tensor.Tensor
	if b.Bool("striped") {
		positions = b.Scratch(tensor.Int64, n)
	}
	stripes := kernel.StripesOf(height)
	return func(context.Context) error {
		refresh(compress.RowsOf, forms, outs)
		used := tensor.UsedRows(x)
		if positions != nil {
			for i, row := range used {
				positions.Int64s()[i] = stripes.Position(row)
			}
			used = positions.Int64s()[:len(used)]
		}
		ordered := kernel.OrderRows(order.Int64s(), spare.Int64s(), used, height)
		first, places := int64(0), len(ordered)
		for i, f := range forms {
			own := kernel.OrderedBetween(ordered, places, first, first+sections[i])
			numbers, sums := f.Begin(kernel.DifferentRows(own, places))
			for len(own) > 0 {
				some := merged.Int64s()[:min(mergedAtOnce, len(numbers))]
				did, taken := kernel.MergeRows(sums, some, own, first, places, x.Float32s(), width)
				for i, row := range some[:did] {
					numbers[i] = int32(row)
				}
				own, numbers, sums = own[taken:], numbers[did:], sums[did*width:]
			}
			first += sections[i]
		}
		return nil
	}, nil
}

// splitKeyRows is split_selected_rows for n rows that have keys.
func splitKeyRows(b *ops.Binding, n int, height int64, width int) (ops.Kernel, error) {
	x, outs, sections := b.In("X"), b.Outs("Out"), b.Ints("sections")
	forms, err := formsOf(compress.KeysOf, outs, width)
	if err != nil {
		return nil, err
	}
	if !wholeRegions(sections) || len(sections) != len(forms) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("runs of %v rows", sections), fault.Want("whole regions"))
	}
	all, order, spare, different := b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n)
	ranks, region, op := b.Scratch(tensor.Int64, n), height/kernel.KeyRegions, b.Op()
	return func(context.Context) error {
		refresh(compress.KeysOf, forms, outs)
		mixed := all.Int64s()[:0]
		for _, row := range tensor.UsedRows(x) {
			mixed = append(mixed, kernel.KeyOfRow(row, height))
		}
		ordered, count := kernel.OrderKeys(order.Int64s(), spare.Int64s(), different.Int64s(), mixed)
		keys, end, did := different.Int64s()[:count], int64(0), 0
		for i, f := range forms {
			end += sections[i]
			own := kernel.KeysBefore(keys, int(end/region))
			if own > f.Height() {
				return ops.At(op, fault.E(fault.TooLarge, fault.Var(op.In("X")), fault.Gotf("%d keys in one step", own), fault.Wantf("at most %d, the rows of a part of the table", f.Height()),
					fault.Hint("give the table more rows, or take smaller batches")))
			}
			numbers, sums := f.Begin(own)
			copy(numbers, keys[:own])
			_, taken := kernel.MergeRows(sums, ranks.Int64s()[:own], ordered, int64(did), len(mixed), x.Float32s(), width)
			ordered, keys, did = ordered[taken:], keys[own:], did+own
		}
		return nil
	}, nil
}

func inferGetRows(s *ops.Shapes) error {
	x := s.In("X")
	if !isForm(x) {
		return s.Errorf("X", "rows of a table as they travel, of known dims")
	}
	rows, width := x.Dims[0]-1, x.Dims[1]-1
	s.SetAt("Out", 0, ops.Meta{Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{rows, width}, Rows: rows})
	return nil
}

func bindGetRows(b *ops.Binding) (ops.Kernel, error) {
	from, to := b.In("X"), b.Out("Out")
	if from.DType() == tensor.Int64 {
		return getKeyRows(from, to)
	}
	rows, height := to.Selected()
	form, ok := compress.RowsOf(from)
	if !ok || rows == nil || to.DType() != tensor.Float32 || height != int64(form.Height()) || to.Len() != form.Height()*form.Width() {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", to, from), fault.Want("a sparse gradient with room for all rows"))
	}
	return func(context.Context) error {
		form, _ := compress.RowsOf(from)
		numbers, values, err := form.Used()
		if err != nil {
			return err
		}
		all := rows.Int64s()
		for i, row := range numbers {
			all[i] = int64(row)
		}
		if len(numbers) < len(all) {
			all[len(numbers)] = height
		}
		copy(to.Float32s(), values)
		return compress.CheckIndices(numbers, -1, form.Height())
	}, nil
}

// getKeyRows is get_selected_rows for rows that have keys.
func getKeyRows(from, to *tensor.Tensor) (ops.Kernel, error) {
	rows, height := to.Selected()
	form, ok := compress.KeysOf(from)
	if !ok || rows == nil || to.DType() != tensor.Float32 || height != int64(form.Height()) || to.Len() != form.Height()*form.Width() {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", to, from), fault.Want("a sparse gradient with room for all rows"))
	}
	return func(context.Context) error {
		form, _ := compress.KeysOf(from)
		keys, values, err := form.Used()
		if err != nil {
			return err
		}
		all := rows.Int64s()
		for i, key := range keys {
			all[i] = kernel.KeyRow(key, height)
		}
		if len(keys) < len(all) {
			all[len(keys)] = height
		}
		copy(to.Float32s(), values)
		return compress.CheckNumbers(keys, form.Height())
	}, nil
}

func inferGatherRows(s *ops.Shapes) error {
	x, rows := s.In("X"), s.In("Rows")
	if x.Kind != program.LoDTensor || !isStored(x) {
		return s.Errorf("X", "a table of rank 2, of float32 or bfloat16")
	}
	if !isForm(rows) || rows.DType != tensor.Int32 || !ops.Compatible(rows.Dims, compress.RowsDims(x.Dims[0], x.Dims[1])) {
		return s.Errorf("Rows", "rows of X as they travel")
	}
	s.Set("Out", tensor.Int32, rows.Dims...)
	return nil
}

func bindGatherRows(b *ops.Binding) (ops.Kernel, error) {
	table, from, to := b.In("X"), b.In("Rows"), b.Out("Out")
	form, ok := compress.RowsOf(from)
	if !ok || !isStored(ops.MetaOfValue(table)) || table.Len() != form.Height()*form.Width() || !slices.Equal(from.Dims(), to.Dims()) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v into %v", from, table, to), fault.Want("rows of the table as they travel"))
	}
	room := b.Scratch(tensor.Int64, mergedAtOnce)
	return func(context.Context) error {
		form, _ := compress.RowsOf(from)
		out, _ := compress.RowsOf(to)
		rows, _, err := form.Used()
		if err == nil {
			err = compress.CheckIndices(rows, -1, form.Height())
		}
		if err != nil {
			return err
		}
		numbers, values := out.Begin(len(rows))
		copy(numbers, rows)
		eachRows(numbers, room.Int64s(), func(at int, some []int64) {
			if out := values[at*form.Width():][:len(some)*form.Width()]; table.DType() == tensor.BFloat16 {
				kernel.GatherWide(out, tensor.Data[uint16](table), some, form.Width())
			} else {
				kernel.GatherRows(out, table.Float32s(), some, form.Width())
			}
		})
		return nil
	}, nil
}

// eachRows calls do with some row numbers after the other, as the kernels have them; the first of them is numbers[at].
func eachRows(numbers []int32, room []int64, do func(at int, some []int64)) {
	for at := 0; at < len(numbers); {
		some := room[:min(len(room), len(numbers)-at)]
		for i := range some {
			some[i] = int64(numbers[at+i])
		}
		do(at, some)
		at += len(some)
	}
}

func inferScatterRows(s *ops.Shapes) error {
	x, all := s.In("X"), s.Ins("Rows")
	if x.Kind != program.LoDTensor || !isStored(x) || slices.Contains(x.Dims, program.Unknown) {
		return s.Errorf("X", "a table of rank 2 and known dims, of float32 or bfloat16")
	}
	left := x.Dims[0]
	for _, rows := range all {
		if !isForm(rows) || rows.DType != tensor.Int32 || rows.Dims[1]-1 != x.Dims[1] {
			return s.Errorf("Rows", "rows of X as they travel")
		}
		left -= rows.Dims[0] - 1
	}
	if left != 0 {
		return s.Errorf("Rows", "runs with all rows of X together")
	}
	s.Set("Out", x.DType, x.Dims...)
	return nil
}

func bindScatterRows(b *ops.Binding) (ops.Kernel, error) {
	table, from, to := b.In("X"), b.Ins("Rows"), b.Out("Out")
	if !isStored(ops.MetaOfValue(table)) || table.DType() != to.DType() || !slices.Equal(table.Dims(), to.Dims()) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v into %v", table, to), fault.Want("a table of rank 2, of float32 or bfloat16"))
	}
	width := int(table.Dims()[1])
	forms, err := formsOf(compress.RowsOf, from, width)
	if err != nil {
		return nil, err
	}
	room, striped, stripes := b.Scratch(tensor.Int64, mergedAtOnce), b.Bool("striped"), kernel.StripesOf(table.Dims()[0])
	return func(context.Context) error {
		refresh(compress.RowsOf, forms, from)
		data, halves, first := to.Float32s(), tensor.Data[uint16](to), int64(0)
		copyApart(data, table.Float32s())
		copyApart(halves, tensor.Data[uint16](table))
		for _, f := range forms {
			numbers, values, err := f.Used()
			if err == nil {
				err = compress.CheckIndices(numbers, -1, f.Height())
			}
			if err != nil {
				return err
			}
			eachRows(numbers, room.Int64s(), func(at int, some []int64) {
				for i := range some {
					if some[i] += first; striped {
						some[i] = stripes.Row(some[i])
					}
				}
				if halves != nil {
					kernel.ScatterNarrow(halves, values[at*width:][:len(some)*width], some, width)
				} else {
					kernel.ScatterRows(data, values[at*width:][:len(some)*width], some, width)
				}
			})
			first += int64(f.Height())
		}
		return nil
	}, nil
}

// copyApart copies elements, unless both slices are the same memory.
func copyApart[T kernel.Stored](to, from []T) {
	if len(to) > 0 && &from[0] != &to[0] {
		copy(to, from)
	}
}
