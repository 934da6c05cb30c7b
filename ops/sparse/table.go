// Package sparse has the ops of tables that grow. Their gradient is lookup_table_rows_grad of package nn.
package sparse

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/seqpool"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file are a table that grows: an embedding whose ids are any int64 but -1, its keys. A key gets a row when it is first trained. Before, it reads
// as the row that it would get, whose values follow from the seed, the table and the key. So neither the order of keys nor a division of the table changes a bit.
//
// A table has three variables. W has the rows that there is room for, Keys has, for each row of W, the key that it belongs to, and Index finds keys (ops/kernel,
// keytable.go). They are ordinary tensors: they are saved, sliced and moved like any other, by whole regions. A sparse gradient of the table has mixed keys for
// row numbers (kernel.KeyRow). A table whose keys must be seen several times, or go when they are unseen, has more (entry.go).
//
//	lookup_sparse_table          W, Keys, Index, ids -> Out
//	lookup_table_rows_grad       ids, Out@GRAD -> W@GRAD, with keys
//	lookup_sparse_table_insert   W@GRAD, W, Keys, Index -> the table with a row for each key of W@GRAD
//	lookup_sparse_table_rows     W@GRAD, Keys, Index -> the gradient with row numbers, which clips and updates read
//	lookup_sparse_table_shrink   the table without keys that go, after the update

const keysDoc = "int64 [rows]: for each row of the table the lower 58 bits of its mixed key, and 6 bits that say when it was seen; 0 for none"

var indexSlot = ops.Slot{Name: "Index", Doc: "int32 [rows]: a hash table that finds the row of a key"}

// regionAttrs say which regions of keys an op has.
var regionAttrs = []ops.Attr{{Name: "region_rows", Kind: int64(0), Doc: "rows of the table for each of the 64 regions of keys"},
	{Name: "first_region", Default: int64(0), Doc: "the region of the first row here"}}

// initialAttrs say what a row is before its first update, and when there is none.
var initialAttrs = []ops.Attr{
	{Name: "table_name", Kind: "", Doc: "the variable of the whole table, by which initial values are drawn"},
	{Name: "seed", Default: int64(0), Doc: "seed of initial values"},
	{Name: "min", Default: float32(0), Doc: "lowest initial value"},
	{Name: "max", Default: float32(0), Doc: "highest initial value"},
	{Name: "at_bound", Default: "error", Doc: "what happens to a new key whose region is full: error; refuse, which leaves it untrained; or evict, which keeps room " +
		"by evicting keys that were not seen for the longest time"},
	{Name: "entry", Default: "none", Doc: "when a key gets a row: none, when it is first trained; count_filter_entry:N, in the Nth round that trains it; " +
		"probability_entry:P, in each round that trains it with probability P"},
	{Name: "evict_unseen", Default: int64(0), Doc: "rounds after which a key that no round has trained is evicted; 0: never"},
	{Name: "evict_unseen_days", Default: int64(0), Doc: "days after which a key that no round has trained is evicted; 0: never"},
}

func init() {
	ops.Register(ops.Def{
		Type: "lookup_sparse_table",
		Doc: "Copies rows of a table that grows: Out[i] is the row of the key Ids[i], or what that row will be at first. The keys -1 and padding_idx read as " +
			"zeros. In Fluid, W is SelectedRows and grows while it is read.",
		Inputs: []ops.Slot{{Name: "W", Doc: "float32 or bfloat16 [rows, width], with a multiple of 64 rows", Stored: true}, {Name: "Keys", Doc: keysDoc}, indexSlot,
			{Name: "Ids", Doc: "int64, the keys on a last axis of extent 1"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "float32, dims of Ids with the width of W as last extent; with a combiner [sequences, width], with the LoD levels of Ids but the innermost"}},
		Attrs: slices.Concat([]ops.Attr{{Name: "padding_idx", Doc: "key that reads as zeros and is not trained; -1 for none", Default: kernel.NoPadding},
			{Name: "auto_grown_table", Default: true, Doc: "the table grows; always true"},
			{Name: "shape", Kind: []int64{}, Doc: "dims of W, for the gradient"},
			seqpool.Attr(seqpool.None, "sum, mean, or sqrt: makes one row of the rows of each sequence of Ids, as fused_embedding_seq_pool does; none: a row for each key")}, initialAttrs),
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
		Exempt: map[ops.Check]string{ops.CheckGradient: "its gradient has keys, which name no elements of W to differentiate by: a key has a row only after the update"},
	})
	ops.Register(ops.Def{
		Type:      "lookup_sparse_table_rows",
		Class:     ops.Compute,
		Doc:       "Takes the rows of a sparse gradient that has keys to the rows of the table that these keys have. Keys without a row are left out.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "a sparse gradient with keys", Rows: true}, {Name: "Keys", Doc: keysDoc}, indexSlot},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "the sparse gradient with row numbers", Rows: true}},
		Attrs:     regionAttrs,
		Infer:     inferKeyRows,
		Cost:      opkit.PerElement(1),
		Bind:      bindKeyRows,
		RowSliced: true,
		TellsRows: []string{"Out"},
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
	if at := s.Str("at_bound"); at != "error" && at != "refuse" && at != "evict" {
		return opkit.BadAttr(s, "at_bound", "error, refuse or evict")
	}
	_, err := ruleOf(s)
	return err
}

// checkKeys checks the variables of a table, or of some of its regions.
func checkKeys(s *ops.Shapes, table, keys ops.Meta) error {
	if table.DType != tensor.Float32 && table.DType != tensor.BFloat16 || len(table.Dims) != 2 {
		return fault.E(fault.ShapeMismatch, fault.Gotf("a table %v", table), fault.Want("float32 or bfloat16 [rows, width]"))
	}
	index := s.In("Index")
	if keys.Kind != program.LoDTensor || keys.DType != tensor.Int64 || len(keys.Dims) != 1 || !opkit.Agree(keys.Dims[0], table.Dims[0]) {
		return s.Errorf("Keys", "int64 [%d], a key for each row", table.Dims[0])
	}
	if index.Kind != program.LoDTensor || index.DType != tensor.Int32 || len(index.Dims) != 1 || !opkit.Agree(index.Dims[0], table.Dims[0]) {
		return s.Errorf("Index", "int32 [%d], an entry for each row", table.Dims[0])
	}
	if table.Dims[0] > kernel.MostKeyRows {
		return fault.E(fault.TooLarge, fault.Gotf("a table of %d rows", table.Dims[0]), fault.Wantf("at most %d", int64(kernel.MostKeyRows)))
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
	if ids.DType != tensor.Int64 {
		return s.Errorf("Ids", "int64 with a last extent of 1")
	}
	if err := opkit.CheckIDDims(s, "Ids"); err != nil {
		return err
	}
	if s.Str("combiner") != seqpool.None {
		dims, err := seqpool.Dims(s, w.Dims[1])
		if err != nil {
			return err
		}
		if len(ids.Dims) != 2 {
			return s.Errorf("Ids", "rank 2 with a last extent of 1, for a combiner")
		}
		s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims})
		s.PoolLoD("Out", "Ids")
		return nil
	}
	s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: slices.Concat(ids.Dims[:len(ids.Dims)-1], w.Dims[1:])})
	s.ShareLoD("Out", "Ids")
	return nil
}

// keysAtOnce is how many ids are mixed at a time.
const keysAtOnce = 256

func bindSparseLookup(b *ops.Binding) (ops.Kernel, error) {
	w, ids, to, padding, initial := b.In("W"), b.In("Ids"), b.Out("Out"), b.Int("padding_idx"), initialRow(b)
	width, rows := int(w.Dims()[1]), int(w.Dims()[0])
	view, err := viewOf(b.In("Keys"), b.In("Index"), nil, 0, rows/kernel.KeyRegions)
	pools := b.Str("combiner") != seqpool.None
	if err != nil || !pools && to.Len() != ids.Len()*width || rows%kernel.KeyRegions != 0 || b.In("Keys").Len() != rows {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("rows %v", to), fault.Wantf("those of %v and %v", w, ids), fault.Cause(err))
	}
	if w.DType() != tensor.Float32 && w.DType() != tensor.BFloat16 || to.DType() != tensor.Float32 {
		return nil, fault.E(fault.TypeMismatch, fault.Gotf("%v of %v", to, w), fault.Want("float32 rows of a table of float32 or bfloat16"))
	}
	lookUp := func(out []float32, from, till int) error {
		table := view()
		var mixed [keysAtOnce]int64
		for ; from < till; from += len(mixed) {
			some := ids.Int64s()[from:min(from+len(mixed), till)]
			for i, id := range some {
				if mixed[i] = kernel.MixKey(id); id == padding {
					mixed[i] = 0
				}
			}
			if w.DType() == tensor.BFloat16 {
				kernel.LookUpKeys(out, tensor.Data[uint16](w), table, initial, mixed[:len(some)], width)
			} else {
				kernel.LookUpKeys(out, w.Float32s(), table, initial, mixed[:len(some)], width)
			}
			out = out[len(some)*width:]
		}
		return nil
	}
	whole := []string{"W", "Keys", "Index"}
	if pools {
		return seqpool.Lookup(b, width, append(whole, "Ids"), lookUp)
	}
	return b.Loops(ops.Loop{N: ids.Len(), Whole: whole, Run: func(_, from, till int) error {
		return lookUp(to.Float32s()[from*width:], from, till)
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

// viewOf returns what makes a view of the variables of a table each time that an op runs. counts is nil for a table without candidates.
func viewOf(keys, index, counts *tensor.Tensor, first, region int) (func() kernel.KeyTable, error) {
	wrong := keys.DType() != tensor.Int64 || index.DType() != tensor.Int32 || counts != nil && counts.DType() != tensor.Int32
	view := func() kernel.KeyTable {
		t := kernel.KeyTable{Keys: keys.Int64s(), Index: index.Int32s(), First: first, Region: region}
		if counts != nil {
			t.Counts = counts.Int32s()
		}
		return t
	}
	if wrong || !view().Agrees() {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("keys %v and an index %v", keys, index), fault.Wantf("whole regions of %d rows", region))
	}
	return view, nil
}

// liveRows appends the rows of a table that are in use.
func liveRows(to []tensor.RowRange, t kernel.KeyTable) []tensor.RowRange {
	for i := range t.Regions() {
		if used := t.UsedOf(t.First + i); used > 0 {
			to = append(to, tensor.RowRange{From: int64(i * t.Region), To: int64(i*t.Region + used)})
		}
	}
	return to
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
	table, err := viewOf(b.In("Keys"), b.In("Index"), nil, int(b.Int("first_region")), int(b.Int("region_rows")))
	if err != nil {
		return nil, err
	}
	_, height := x.Selected()
	numbers, tall := to.Selected()
	if !x.IsSelected() || numbers == nil || tall != height || to.Len() != x.Len() || height != int64(b.In("Keys").Len()) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", to, x), fault.Want("sparse gradients of one table"))
	}
	width, watch, out := int(x.Dims()[1]), b.Env.Rows, b.Op().Out("Out")
	var live []tensor.RowRange
	inUse := func() []tensor.RowRange {
		live = liveRows(live[:0], table())
		return live
	}
	return func(context.Context) error {
		t, rows, n := table(), numbers.Int64s(), 0
		tensor.SetLive(to, inUse)
		from, into := x.Float32s(), to.Float32s()
		var tell func(row int)
		if watch != nil {
			tell = watch.Changing(out)
		}
		var some someKeys
		for used := tensor.UsedRows(x); len(used) > 0; {
			used = some.take(t, used, height)
			for _, row := range some.rows[:some.n] {
				if row >= 0 {
					if rows[n] = row; tell != nil {
						tell(int(row))
					}
					copy(into[n*width:][:width], from[:width])
					n++
				}
				from = from[width:]
			}
		}
		if n < len(rows) {
			rows[n] = height
		}
		return nil
	}, nil
}
