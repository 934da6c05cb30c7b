package sequence

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/seqpool"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "fused_embedding_seq_pool",
		Doc: "Makes one row of the rows of a table that each sequence of ids names: lookup_table and sequence_pool in one, with the same bits and without the rows in " +
			"between. A sequence without ids gives zeros. Fluid knows the sum alone.",
		Inputs: []ops.Slot{{Name: "W", Doc: "float [rows, width]; bfloat16 with is_sparse, and then Out and the gradient are float32", Stored: true},
			{Name: "Ids", Doc: "int64 [ids, 1] with a LoD; the innermost level counts"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[sequences, width], with the LoD levels of Ids but the innermost"}},
		Attrs: []ops.Attr{
			seqpool.Attr(seqpool.Sum, "sum, mean, or sqrt: the sum over the square root of the number of ids"),
			{Name: "padding_idx", Doc: "id whose row reads as zeros and is not trained; -1 for none", Default: kernel.NoPadding},
			{Name: "is_sparse", Doc: "the gradient of W is sparse: one row for each id", Default: false},
			{Name: "is_distributed", Doc: "with is_sparse, pservers alone hold the table on a cluster", Default: false}},
		Infer:     inferFusedLookup,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindBits("W", bindFusedLookup[float32], bindFusedLookup[float64], nil, nil, nil, bindStoredFusedLookup),
		MixesRows: opkit.RowsOnlyIn("Ids"),
	}, opkit.Gradient{
		Doc: "dW holds, for each row of W, the sum of dOut of the sequences of the ids that name it, divided as the rows were, in the order of ids. With is_sparse it is a " +
			"row for each id; those of padding_idx are zeros.",
		Inputs: []string{"W", "Ids"},
		Wrt:    []string{"W"},
		Refine: func(s *ops.Shapes) {
			if table := s.In("W"); s.Bool("is_sparse") && s.Wants("W@GRAD") {
				s.SetAt("W@GRAD", 0, ops.Meta{Kind: program.SelectedRows, DType: seqpool.ComputedAs(table.DType), Dims: table.Dims, Rows: ops.Product(s.In("Ids").Dims)})
			}
		},
		Rows: true,
		Cost: opkit.PerElement(1),
		Bind: opkit.BindBits("W", bindFusedLookupGrad[float32], bindFusedLookupGrad[float64], nil, nil, nil, bindFusedLookupGrad[float32]),
	})
}

func inferFusedLookup(s *ops.Shapes) error {
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
	ids, table := s.In("Ids"), s.In("W").Dims
	if err := opkit.CheckType(s, "Ids", ids.DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	if len(ids.Dims) != 2 || !opkit.Agree(ids.Dims[1], 1) {
		return s.Errorf("Ids", "rank 2 with a last extent of 1")
	}
	dims, err := seqpool.Dims(s, table[1])
	if err != nil {
		return err
	}
	s.Set("Out", seqpool.ComputedAs(s.In("W").DType), dims...)
	s.PoolLoD("Out", "Ids")
	return nil
}

func bindFusedLookup[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, to, pool := b.Op(), b.In("W"), b.In("Ids"), b.Out("Out"), seqpool.Of(b)
	rows, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	if to.Len() != pool.N*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", to), fault.Wantf("%d rows of %d", pool.N, width))
	}
	return b.Loops(ops.Loop{N: pool.N, Apart: true, Whole: []string{"W"}, Run: func(_, from, till int) error {
		offsets, err := pool.Offsets()
		if err != nil || from == till {
			return err
		}
		all, begin := ids.Int64s(), int(offsets[from])
		if err := opkit.CheckIDs(op, op.In("Ids"), all[begin:offsets[till]], begin, rows); err != nil {
			return err
		}
		out := opkit.Owned[T](to, from, till, pool.N)
		kernel.EmbeddingSums(out, tensor.Data[T](table), all, offsets[from:till+1], width, padding)
		seqpool.Finish(pool, out, offsets, from, till, width)
		return nil
	}})
}

// bindStoredFusedLookup is bindFusedLookup for a table of bfloat16.
func bindStoredFusedLookup(b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, to := b.Op(), b.In("W"), b.In("Ids"), b.Out("Out")
	rows, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	if table.DType() != tensor.BFloat16 || to.DType() != tensor.Float32 {
		return nil, fault.E(fault.TypeMismatch, fault.Gotf("%v of %v", to, table), fault.Want("float32 rows of a table of bfloat16"))
	}
	return seqpool.Lookup(b, width, []string{"W"}, func(out []float32, from, till int) error {
		some := ids.Int64s()[from:till]
		if err := opkit.CheckIDs(op, op.In("Ids"), some, from, rows); err != nil {
			return err
		}
		kernel.GatherWide(out, tensor.Data[uint16](table), some, width)
		if padding != kernel.NoPadding {
			kernel.ClearRowsOf(out, some, width, padding)
		}
		return nil
	})
}

func bindFusedLookupGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, ids, dout, dtable, padding, pool := b.Op(), b.In("Ids"), b.In("Out@GRAD"), b.Out("W@GRAD"), b.Int("padding_idx"), seqpool.Of(b)
	width := int(dtable.Dims()[1])
	if dout.Len() != pool.N*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", dout), fault.Wantf("%d rows of %d", pool.N, width))
	}
	if numbers, height := dtable.Selected(); numbers != nil {
		if numbers.Len() != ids.Len() || dtable.Len() != ids.Len()*width {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", dtable), fault.Want("a row for each id"))
		}
		return func(context.Context) error {
			if err := opkit.CheckIDs(op, op.In("Ids"), ids.Int64s(), 0, height); err != nil {
				return err
			}
			rows, values := numbers.Int64s(), tensor.Data[T](dtable)
			copy(rows, ids.Int64s())
			err := seqpool.Spread(pool, values, tensor.Data[T](dout), width)
			if padding != kernel.NoPadding {
				kernel.ClearRowsOf(values, rows, width, padding)
			}
			return err
		}, nil
	}
	if dtable.DType() != dout.DType() {
		return nil, fault.E(fault.TypeMismatch, fault.Gotf("%v of %v", dtable, dout), fault.Want("a sparse gradient"))
	}
	reads, rows := []string{"Ids", "Out@GRAD"}, dtable.Dims()[0]
	divided := dout // as the rows were
	var loops []ops.Loop
	if !pool.Sums() {
		divided = b.Scratch(dout.DType(), dout.Len())
		loops = append(loops, ops.Loop{N: pool.N, Apart: true, Reads: reads, Whole: reads, Run: func(_, from, till int) error {
			offsets, err := pool.Offsets()
			if err != nil {
				return err
			}
			some := tensor.Data[T](divided)[from*width : till*width]
			copy(some, tensor.Data[T](dout)[from*width:till*width])
			seqpool.Finish(pool, some, offsets, from, till, width)
			return nil
		}})
	}
	return b.Loops(append(loops, ops.Loop{N: int(rows), Least: ids.Len(), Reads: reads, Whole: reads, Run: func(_, from, till int) error {
		offsets, err := pool.Offsets()
		if err == nil {
			err = opkit.CheckIDs(op, op.In("Ids"), ids.Int64s(), 0, rows)
		}
		if err != nil {
			return err
		}
		kernel.EmbeddingSumsGrad(tensor.Data[T](dtable), ids.Int64s(), offsets, tensor.Data[T](divided), width, padding, from, till)
		return nil
	}})...)
}
