// Package sparse has the ops of tables that grow. Their gradient is lookup_table_rows_grad of package nn.
package sparse

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file are a table that grows: an embedding whose ids are any int64 but -1, its keys. A key gets a row when it is first trained. Before, it reads
// as the row that it would get, whose values follow from the seed, the table and the key. So neither the order of keys nor a division of the table changes a bit.
//
// A table has two variables. W has the rows that there is room for, and Keys has, for each row of W, the key that it belongs to (ops/kernel, keys.go). Both are
// ordinary tensors: they are saved, sliced and moved like any other, by whole regions. A sparse gradient of the table has mixed keys for row numbers
// (kernel.KeyRow).
//
//	lookup_sparse_table          W, Keys, ids -> Out
//	lookup_table_rows_grad       ids, Out@GRAD -> W@GRAD, with keys
//	lookup_sparse_table_insert   W@GRAD, W, Keys -> W and Keys with a row for each key of W@GRAD
//	lookup_sparse_table_rows     W@GRAD, Keys -> the gradient with row numbers, which clips and updates read

const keysDoc = "int64 [rows]: for each row of the table the mixed key that it belongs to, 0 for none"

// initialAttrs say what a row is before its first update, and when there is none.
var initialAttrs = []ops.Attr{
	{Name: "table_name", Kind: "", Doc: "the variable of the whole table, by which initial values are drawn"},
	{Name: "seed", Default: int64(0), Doc: "seed of initial values"},
	{Name: "min", Default: float32(0), Doc: "lowest initial value"},
	{Name: "max", Default: float32(0), Doc: "highest initial value"},
	{Name: "at_bound", Default: "error", Doc: "what happens to a new key whose region is full: error, or refuse, which leaves it untrained"},
}

func init() {
	ops.Register(ops.Def{
		Type: "lookup_sparse_table",
		Doc: "Copies rows of a table that grows: Out[i] is the row of the key Ids[i], or what that row will be at first. The keys -1 and padding_idx read as " +
			"zeros. In Fluid, W is SelectedRows and grows while it is read.",
		Inputs: []ops.Slot{{Name: "W", Doc: "float32 [rows, width], with a multiple of 64 rows"}, {Name: "Keys", Doc: keysDoc},
			{Name: "Ids", Doc: "int64, the keys on a last axis of extent 1"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "dims of Ids with the width of W as last extent"}},
		Attrs: slices.Concat([]ops.Attr{{Name: "padding_idx", Doc: "key that reads as zeros and is not trained; -1 for none", Default: kernel.NoPadding},
			{Name: "auto_grown_table", Default: true, Doc: "the table grows; always true"},
			{Name: "shape", Kind: []int64{}, Doc: "dims of W, for the gradient"}}, initialAttrs),
		Infer:     inferSparseLookup,
		Cost:      opkit.PerElement(1),
		Bind:      bindSparseLookup,
		MixesRows: opkit.RowsOnlyIn("Ids"),
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("lookup_table_rows_grad")
			op.Inputs["Ids"], op.Inputs["Out@GRAD"], op.Outputs["W@GRAD"] = g.In("Ids"), g.OutGrad("Out"), g.InGrad("W")
			op.SetAttr("auto_grown_table", true)
			return []*program.Op{op}, nil
		},
	})
	ops.Register(ops.Def{
		Type:  "lookup_sparse_table_insert",
		Class: ops.Optimize,
		Doc: "Gives each key of a sparse gradient a row of a table that grows, with its initial values, unless it has one. Keys get rows in the order of " +
			"their mixed keys. In Paddle 2, this is part of lookup_sparse_table_write.",
		Inputs: []ops.Slot{{Name: "Param", Doc: "float32, the table"}, {Name: "Keys", Doc: keysDoc},
			{Name: "Grad", Doc: "its gradient, with keys", Rows: true}},
		Outputs: []ops.Slot{{Name: "ParamOut", Doc: "the table, the variable of Param"}, {Name: "KeysOut", Doc: "the variable of Keys"}},
		Attrs: slices.Concat([]ops.Attr{
			{Name: "region_rows", Kind: int64(0), Doc: "rows of the table for each of the 64 regions of keys"},
			{Name: "first_region", Default: int64(0), Doc: "the region of the first row here"}}, initialAttrs),
		Infer:     inferInsert,
		Cost:      opkit.PerElement(1),
		Bind:      bindInsert,
		RowSliced: true,
		InPlace:   map[string]string{"ParamOut": "Param", "KeysOut": "Keys"},
	})
	ops.Register(ops.Def{
		Type:    "lookup_sparse_table_rows",
		Class:   ops.Compute,
		Doc:     "Takes the rows of a sparse gradient that has keys to the rows of the table that these keys have. Keys without a row are left out.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a sparse gradient with keys", Rows: true}, {Name: "Keys", Doc: keysDoc}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the sparse gradient with row numbers", Rows: true}},
		Attrs: []ops.Attr{{Name: "region_rows", Kind: int64(0), Doc: "rows of the table for each of the 64 regions of keys"},
			{Name: "first_region", Default: int64(0), Doc: "the region of the first row here"}},
		Infer:     inferKeyRows,
		Cost:      opkit.PerElement(1),
		Bind:      bindKeyRows,
		RowSliced: true,
	})
}

// initialRow reads the attributes that say what a row is at first.
func initialRow(b *ops.Binding) kernel.InitialRow {
	return kernel.InitialRow{Seed: b.Int("seed"), Table: kernel.StreamOf(b.Str("table_name")), Low: b.Float("min"), High: b.Float("max")}
}

// checkInitial checks these attributes.
func checkInitial(s *ops.Shapes) error {
	if low, high := s.Float("min"), s.Float("max"); !(low <= high) || high-low > 1e30 {
		return opkit.BadAttr(s, "max", "a number of at least min %v", low)
	}
	if at := s.Str("at_bound"); at != "error" && at != "refuse" {
		return opkit.BadAttr(s, "at_bound", "error or refuse")
	}
	return nil
}

// checkKeys checks the variables of a table, or of some of its regions.
func checkKeys(s *ops.Shapes, table, keys ops.Meta) error {
	if table.DType != tensor.Float32 || len(table.Dims) != 2 {
		return fault.E(fault.ShapeMismatch, fault.Gotf("a table %v", table), fault.Want("float32 [rows, width]"))
	}
	if keys.Kind != program.LoDTensor || keys.DType != tensor.Int64 || len(keys.Dims) != 1 || !opkit.Agree(keys.Dims[0], table.Dims[0]) {
		return s.Errorf("Keys", "int64 [%d], a key for each row", table.Dims[0])
	}
	return nil
}

func inferSparseLookup(s *ops.Shapes) error {
	w, ids, shape := s.In("W"), s.In("Ids"), s.Ints("shape")
	if err := checkKeys(s, w, s.In("Keys")); err != nil {
		return err
	}
	if w.Kind != program.LoDTensor || w.Dims[0] < 1 || w.Dims[0]%kernel.KeyRegions != 0 || w.Dims[1] < 1 {
		return s.Errorf("W", "[rows, width] with a multiple of %d rows", kernel.KeyRegions)
	}
	if !slices.Equal(shape, w.Dims) || !s.Bool("auto_grown_table") {
		return opkit.BadAttr(s, "shape", "%v, the dims of W, and auto_grown_table", w.Dims)
	}
	if err := checkInitial(s); err != nil {
		return err
	}
	if ids.DType != tensor.Int64 || len(ids.Dims) == 0 || !opkit.Agree(ids.Dims[len(ids.Dims)-1], 1) {
		return s.Errorf("Ids", "int64 with a last extent of 1")
	}
	s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: slices.Concat(ids.Dims[:len(ids.Dims)-1], w.Dims[1:])})
	s.ShareLoD("Out", "Ids")
	return nil
}

// keysAtOnce is how many ids are mixed at a time.
const keysAtOnce = 256

func bindSparseLookup(b *ops.Binding) (ops.Kernel, error) {
	w, keys, ids, to, padding, initial := b.In("W"), b.In("Keys"), b.In("Ids"), b.Out("Out"), b.Int("padding_idx"), initialRow(b)
	width := int(w.Dims()[1])
	if keys.DType() != tensor.Int64 || keys.Len() != int(w.Dims()[0]) || keys.Len()%kernel.KeyRegions != 0 || keys.Len() == 0 || to.Len() != ids.Len()*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("keys %v and rows %v", keys, to), fault.Wantf("those of %v and %v", w, ids))
	}
	region := keys.Len() / kernel.KeyRegions
	return b.Loops(ops.Loop{N: ids.Len(), Whole: []string{"W", "Keys"}, Run: func(_, from, till int) error {
		table := kernel.KeyTable{Keys: keys.Int64s(), Region: region}
		var mixed [keysAtOnce]int64
		for ; from < till; from += len(mixed) {
			some := ids.Int64s()[from:min(from+len(mixed), till)]
			for i, id := range some {
				if mixed[i] = kernel.MixKey(id); id == padding {
					mixed[i] = 0
				}
			}
			kernel.LookUpKeys(to.Float32s()[from*width:], w.Float32s(), table, initial, mixed[:len(some)], width)
		}
		return nil
	}})
}

// inferRegions checks the attributes of an op that works on regions, and returns the dims of the table.
func inferRegions(s *ops.Shapes, table ops.Meta) error {
	if err := checkKeys(s, table, s.In("Keys")); err != nil {
		return err
	}
	region, first, rows := s.Int("region_rows"), s.Int("first_region"), table.Dims[0]
	if region < 1 || first < 0 || first >= kernel.KeyRegions || rows >= 0 && (rows%region != 0 || rows/region > kernel.KeyRegions-first) {
		return opkit.BadAttr(s, "region_rows", "rows of a region of which there are %d, some of them with %d rows", kernel.KeyRegions, rows)
	}
	return nil
}

func inferInsert(s *ops.Shapes) error {
	param, grad := s.In("Param"), s.In("Grad")
	if err := inferRegions(s, param); err != nil {
		return err
	}
	if err := checkInitial(s); err != nil {
		return err
	}
	if grad.Kind != program.SelectedRows || grad.DType != tensor.Float32 || !ops.Compatible(grad.Dims, param.Dims) {
		return s.Errorf("Grad", "a sparse gradient of Param %v", param)
	}
	s.Like("ParamOut", "Param")
	s.Like("KeysOut", "Keys")
	return nil
}

// regionsOf returns the view of keys by which an op finds rows.
func regionsOf(b *ops.Binding, keys *tensor.Tensor) (func() kernel.KeyTable, error) {
	region, first := int(b.Int("region_rows")), int(b.Int("first_region"))
	if keys.DType() != tensor.Int64 || region < 1 || keys.Len()%region != 0 {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("keys %v", keys), fault.Wantf("whole regions of %d rows", region))
	}
	return func() kernel.KeyTable { return kernel.KeyTable{Keys: keys.Int64s(), First: first, Region: region} }, nil
}

func bindInsert(b *ops.Binding) (ops.Kernel, error) {
	param, grad, keys, op, initial, refuse := b.Out("ParamOut"), b.In("Grad"), b.Out("KeysOut"), b.Op(), initialRow(b), b.Str("at_bound") == "refuse"
	table, err := regionsOf(b, keys)
	if err != nil {
		return nil, err
	}
	rows, height := grad.Selected()
	if rows == nil || param != b.In("Param") && !sameMemory(param, b.In("Param")) || keys.Len() != int(param.Dims()[0]) || height != param.Dims()[0] {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", grad, param), fault.Want("a sparse gradient of Param, which the op updates in place"))
	}
	width, fresh := int(param.Dims()[1]), b.Scratch(tensor.Int64, rows.Len())
	return func(context.Context) error {
		t, unknown := table(), fresh.Int64s()[:0]
		for _, row := range tensor.UsedRows(grad) {
			if key := kernel.KeyOfRow(row, height); t.Find(key) < 0 {
				unknown = append(unknown, key)
			}
		}
		slices.Sort(unknown)
		for _, key := range unknown {
			row, added := t.Insert(key)
			switch {
			case added:
				initial.Fill(param.Float32s()[row*width:][:width], key)
			case row < 0 && !refuse:
				return ops.At(op, fault.E(fault.TooLarge, fault.Var(op.In("Param")), fault.Gotf("a new key %d, and %d rows of its region in use", kernel.KeyOf(key), t.Region),
					fault.Want("a table with room for its keys"), fault.Hint("give layers.SparseEmbedding more rows, or layers.Refuse()")))
			}
		}
		return nil
	}, nil
}

// sameMemory reports whether two tensors share their elements.
func sameMemory(a, b *tensor.Tensor) bool {
	if a.Len() != b.Len() || a.Len() == 0 {
		return a.Len() == b.Len()
	}
	return &a.Float32s()[0] == &b.Float32s()[0]
}

func inferKeyRows(s *ops.Shapes) error {
	x := s.In("X")
	if x.Kind != program.SelectedRows {
		return s.Errorf("X", "a sparse gradient with keys")
	}
	if err := inferRegions(s, x); err != nil {
		return err
	}
	s.SetAt("Out", 0, x)
	return nil
}

func bindKeyRows(b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	table, err := regionsOf(b, b.In("Keys"))
	if err != nil {
		return nil, err
	}
	_, height := x.Selected()
	numbers, tall := to.Selected()
	if !x.IsSelected() || numbers == nil || tall != height || to.Len() != x.Len() || height != int64(b.In("Keys").Len()) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", to, x), fault.Want("sparse gradients of one table"))
	}
	width := int(x.Dims()[1])
	return func(context.Context) error {
		t, rows, n := table(), numbers.Int64s(), 0
		from, into := x.Float32s(), to.Float32s()
		for i, number := range tensor.UsedRows(x) {
			if row := t.Find(kernel.KeyOfRow(number, height)); row >= 0 {
				rows[n] = int64(row)
				copy(into[n*width:][:width], from[i*width:][:width])
				n++
			}
		}
		if n < len(rows) {
			rows[n] = height
		}
		return nil
	}, nil
}
