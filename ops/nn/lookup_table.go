package nn

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

func init() {
	registerLookup("lookup_table", "int64, the ids on a last axis of extent 1", "dims of Ids with the width of W as last extent",
		func(s *ops.Shapes) ([]int64, error) {
			ids := s.In("Ids").Dims
			if err := opkit.CheckIDDims(s, "Ids"); err != nil {
				return nil, err
			}
			return ids[:len(ids)-1], nil
		})
	registerLookup("lookup_table_v2", "int64 of any dims", "dims of Ids and then the width of W",
		func(s *ops.Shapes) ([]int64, error) { return s.In("Ids").Dims, nil })
}

func init() {
	ops.Register(ops.Def{
		Type:  "lookup_table_rows_grad",
		Class: ops.Backward,
		Doc: "The sparse gradient of a table that is not here: a row for each id, that of Out@GRAD, or of a lookup with a combiner that of its sequence, divided as the rows " +
			"were. Those of padding_idx are zeros.",
		Inputs:  []ops.Slot{{Name: "Ids", Doc: "int64, the ids of the lookup"}, {Name: "Out@GRAD", Doc: "a row for each id, with a combiner for each sequence of them"}},
		Outputs: []ops.Slot{{Name: "W@GRAD", Doc: "rows of the table", Rows: true}},
		Attrs: []ops.Attr{{Name: "padding_idx", Default: kernel.NoPadding, Doc: "id whose row is not trained; -1 for none"},
			{Name: "shape", Kind: []int64{}, Doc: "dims of the table, [rows, width]"},
			{Name: "auto_grown_table", Default: false, Doc: "the table grows: Ids are keys, any int64 but -1, and W@GRAD has mixed keys for row numbers"},
			seqpool.Attr(seqpool.None, "how the lookup makes one row of a sequence; none: it gives a row for each id")},
		Infer: inferRowsGrad,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindFloats("Out@GRAD", bindLookupRows[float32], bindLookupRows[float64]),
	})
}

// registerLookup registers an embedding. places returns the dims of Ids without the last 1.
func registerLookup(name, ids, out string, places func(*ops.Shapes) ([]int64, error)) {
	opkit.Register(ops.Def{
		Type: name,
		Doc:  "Copies rows of a table: Out[i] = W[Ids[i]], zeros where the id is padding_idx.",
		Inputs: []ops.Slot{
			{Name: "W", Doc: "float [rows, width]; bfloat16 with is_sparse, and then Out and the gradient are float32", Stored: true},
			{Name: "Ids", Doc: ids}},
		Outputs: []ops.Slot{{Name: "Out", Doc: out}},
		Attrs: []ops.Attr{
			{Name: "padding_idx", Doc: "id whose row reads as zeros and is not trained; -1 for none", Default: kernel.NoPadding},
			{Name: "is_sparse", Doc: "the gradient of W is sparse: one row for each id", Default: false},
			{Name: "is_distributed", Doc: "with is_sparse, pservers alone hold the table on a cluster", Default: false}},
		Infer: func(s *ops.Shapes) error { return inferLookup(s, places) },
		Bind:  opkit.BindBits("W", bindLookup[float32], bindLookup[float64], nil, nil, nil, bindStoredLookup),

		MixesRows: opkit.RowsOnlyIn("Ids"),
	}, opkit.Gradient{
		Doc: "dW holds, for each row of W, the sum of dOut over the places that name it, in their order. With is_sparse " +
			"it is the rows of dOut as they stand, each with its id; those of padding_idx are zeros.",
		Inputs:  []string{"W", "Ids"},
		Wrt:     []string{"W"},
		Refine:  sparseGradient,
		Rows:    true,
		InPlace: map[string]string{"W@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindBits("W", bindLookupGrad[float32], bindLookupGrad[float64], nil, nil, nil, bindLookupGrad[float32]),
	})
}

func inferLookup(s *ops.Shapes, places func(*ops.Shapes) ([]int64, error)) error {
	if w := s.In("W"); w.DType == tensor.BFloat16 && !s.Bool("is_sparse") {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("W")), fault.Gotf("a dense gradient of W %v", w), fault.Want("is_sparse for a table of bfloat16"))
	} else if w.DType != tensor.BFloat16 {
		if err := s.IsFloat("W"); err != nil {
			return err
		}
	}
	if err := s.Rank("W", 2); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "Ids", s.In("Ids").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	table := s.In("W").Dims
	dims, err := places(s)
	if err != nil {
		return err
	}
	s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: seqpool.ComputedAs(s.In("W").DType), Dims: slices.Concat(dims, table[1:])})
	s.ShareLoD("Out", "Ids")
	return nil
}

// bindStoredLookup is bindLookup for a table of bfloat16.
func bindStoredLookup(b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, to := b.Op(), b.In("W"), b.In("Ids"), b.Out("Out")
	rows, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	n := ids.Len()
	if table.DType() != tensor.BFloat16 || to.DType() != tensor.Float32 {
		return nil, fault.E(fault.TypeMismatch, fault.Gotf("%v of %v", to, table), fault.Want("float32 rows of a table of bfloat16"))
	}
	return b.Loops(ops.Loop{N: n, Whole: []string{"W"}, Run: func(_, from, till int) error {
		some := ids.Int64s()[from:till]
		if err := opkit.CheckIDs(op, op.In("Ids"), some, from, rows); err != nil {
			return err
		}
		out := opkit.Owned[float32](to, from, till, n)
		kernel.GatherWide(out, tensor.Data[uint16](table), some, width)
		if padding != kernel.NoPadding {
			kernel.ClearRowsOf(out, some, width, padding)
		}
		return nil
	}})
}

func bindLookup[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, to := b.Op(), b.In("W"), b.In("Ids"), b.Out("Out")
	rows, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	n := ids.Len()
	return b.Loops(ops.Loop{N: n, Whole: []string{"W"}, Run: func(_, from, till int) error {
		some := ids.Int64s()[from:till]
		if err := opkit.CheckIDs(op, op.In("Ids"), some, from, rows); err != nil {
			return err
		}
		kernel.Embedding(opkit.Owned[T](to, from, till, n), tensor.Data[T](table), some, width, padding)
		return nil
	}})
}

func bindLookupGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, dout, dtable := b.Op(), b.In("W"), b.In("Ids"), b.In("Out@GRAD"), b.Out("W@GRAD")
	if dtable.IsSelected() {
		return bindLookupRows[T](b)
	}
	if table.DType() == tensor.BFloat16 {
		return nil, fault.E(fault.TypeMismatch, fault.Gotf("%v of %v", dtable, table), fault.Want("a sparse gradient"))
	}
	rows, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	scatter := func(from, to int, values []T) error {
		if err := opkit.CheckIDs(op, op.In("Ids"), ids.Int64s(), 0, rows); err != nil {
			return err
		}
		kernel.EmbeddingGrad(tensor.Data[T](dtable), ids.Int64s(), values, width, padding, from, to)
		return nil
	}
	if apart := standIn(b, dout, dtable); apart != nil || rows == 0 {
		return func(context.Context) error {
			copy(opkit.Data[T](apart), tensor.Data[T](dout))
			return scatter(0, int(rows), opkit.Data[T](apart))
		}, nil
	}
	reads := []string{"Ids", "Out@GRAD"}
	return b.Loops(ops.Loop{N: int(rows), Least: ids.Len(), Reads: reads, Whole: reads, Run: func(_, from, to int) error {
		return scatter(from, to, tensor.Data[T](dout))
	}})
}

// sparseGradient makes the gradient of a table sparse if the lookup is. It has as many rows as there are ids.
func sparseGradient(s *ops.Shapes) {
	if !s.Bool("is_sparse") || !s.Wants("W@GRAD") {
		return
	}
	table := s.In("W")
	s.SetAt("W@GRAD", 0, ops.Meta{Kind: program.SelectedRows, DType: seqpool.ComputedAs(table.DType), Dims: table.Dims, Rows: ops.Product(s.In("Ids").Dims)})
}

// inferRowsGrad sets the sparse gradient of a table whose dims an attribute says.
func inferRowsGrad(s *ops.Shapes) error {
	shape := s.Ints("shape")
	if len(shape) != 2 || shape[0] < 1 || shape[1] < 1 {
		return opkit.BadAttr(s, "shape", "rows and width of the table")
	}
	given := s.In("Out@GRAD").DType
	if s.In("Ids").DType != tensor.Int64 || given != tensor.Float32 && given != tensor.Float64 {
		return s.Errorf("Ids", "int64, and Out@GRAD of float32 or float64")
	}
	s.SetAt("W@GRAD", 0, ops.Meta{Kind: program.SelectedRows, DType: given, Dims: slices.Clone(shape), Rows: ops.Product(s.In("Ids").Dims)})
	return nil
}

// bindLookupRows makes a sparse gradient: its rows are the ids and its values the gradient of Out. Rows of padding ids are zeros.
func bindLookupRows[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, ids, dout, dtable, padding := b.Op(), b.In("Ids"), b.In("Out@GRAD"), b.Out("W@GRAD"), b.Int("padding_idx")
	numbers, height := dtable.Selected()
	width, pools, pool := int(dtable.Dims()[1]), false, seqpool.Of(b)
	want := dtable.Len()
	if op.Type == "lookup_table_rows_grad" && b.Str("combiner") != seqpool.None {
		pools, want = true, pool.N*width
	}
	if numbers == nil || numbers.Len() != ids.Len() || dtable.Len() != ids.Len()*width || dout.Len() != want {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", dtable, dout), fault.Want("a row for each id, or for each sequence of ids"))
	}
	if op.Type == "lookup_table_rows_grad" && b.Bool("auto_grown_table") {
		return bindKeysGrad[T](b, pools)
	}
	return func(context.Context) error {
		if err := opkit.CheckIDs(op, op.In("Ids"), ids.Int64s(), 0, height); err != nil {
			return err
		}
		rows := numbers.Int64s()
		copy(rows, ids.Int64s())
		values := tensor.Data[T](dtable)
		if !pools {
			copy(values, tensor.Data[T](dout)) // does nothing if the plan gave both the same memory
		} else if err := seqpool.Spread(pool, values, tensor.Data[T](dout), width); err != nil {
			return err
		}
		if padding != kernel.NoPadding {
			kernel.ClearRowsOf(values, rows, width, padding)
		}
		return nil
	}, nil
}

// standIn returns memory for a copy of in if in and out, of equal length, may share their memory, else nil.
func standIn(b *ops.Binding, in, out *tensor.Tensor) *tensor.Tensor {
	if in.Len() != out.Len() {
		return nil
	}
	return b.Scratch(in.DType(), in.Len())
}

// bindKeysGrad is bindLookupRows for ids that are keys: the rows of keys that are trained, with mixed keys for their numbers. pools says that dout has a row for each sequence.
func bindKeysGrad[T tensor.Float](b *ops.Binding, pools bool) (ops.Kernel, error) {
	ids, dout, dtable, padding, pool := b.In("Ids"), b.In("Out@GRAD"), b.Out("W@GRAD"), b.Int("padding_idx"), seqpool.Of(b)
	numbers, height := dtable.Selected()
	width := int(dtable.Dims()[1])
	return func(context.Context) error {
		rows, n := numbers.Int64s(), 0
		from, to := tensor.Data[T](dout), tensor.Data[T](dtable)
		if pools {
			if err := seqpool.Spread(pool, to, from, width); err != nil {
				return err
			}
			from = to
		}
		for i, id := range ids.Int64s() {
			if id == kernel.NoKey || id == padding {
				continue
			}
			rows[n] = kernel.KeyRow(kernel.MixKey(id), height)
			copy(to[n*width:][:width], from[i*width:][:width]) // to may be from: n <= i
			n++
		}
		if n < len(rows) {
			rows[n] = height
		}
		return nil
	}, nil
}
