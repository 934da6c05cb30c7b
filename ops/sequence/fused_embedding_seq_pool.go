package sequence

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "fused_embedding_seq_pool",
		Doc: "Sums the rows of a table that each sequence of ids names: lookup_table and sequence_pool with SUM in one, with the same bits and without the rows in " +
			"between. A sequence without ids gives zeros.",
		Inputs:  []ops.Slot{{Name: "W", Doc: "float [rows, width]"}, {Name: "Ids", Doc: "int64 [ids, 1] with a LoD; the innermost level counts"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[sequences, width], with the LoD levels of Ids but the innermost"}},
		Attrs: []ops.Attr{
			{Name: "combiner", Doc: "always sum", Default: "sum", Check: func(op *program.Op) error {
				if kind, _ := op.Str("combiner"); kind != "sum" {
					return fault.New(fault.InvalidArgument, "sum")
				}
				return nil
			}},
			{Name: "padding_idx", Doc: "id whose row reads as zeros and is not trained; -1 for none", Default: kernel.NoPadding},
			{Name: "is_sparse", Doc: "the gradient of W is sparse: one row for each id", Default: false}},
		Infer:     inferFusedLookup,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindFloats("W", bindFusedLookup[float32], bindFusedLookup[float64]),
		MixesRows: opkit.RowsOnlyIn("Ids"),
	}, opkit.Gradient{
		Doc: "dW holds, for each row of W, the sum of dOut of the sequences of the ids that name it, in the order of ids. With is_sparse it is a row of dOut for each id; " +
			"those of padding_idx are zeros.",
		Inputs: []string{"W", "Ids"},
		Wrt:    []string{"W"},
		Refine: func(s *ops.Shapes) {
			if table := s.In("W"); s.Bool("is_sparse") && s.Wants("W@GRAD") {
				s.SetAt("W@GRAD", 0, ops.Meta{Kind: program.SelectedRows, DType: table.DType, Dims: table.Dims, Rows: ops.Product(s.In("Ids").Dims)})
			}
		},
		Rows: true,
		Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("W", bindFusedLookupGrad[float32], bindFusedLookupGrad[float64]),
	})
}

func inferFusedLookup(s *ops.Shapes) error {
	if err := s.IsFloat("W"); err != nil {
		return err
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
	if padding := s.Int("padding_idx"); padding < kernel.NoPadding || table[0] >= 0 && padding >= table[0] {
		return opkit.BadAttr(s, "padding_idx", "a row of W %v, or -1 for none", table)
	}
	sequences, err := s.CountSequences("Ids")
	if err != nil {
		return err
	}
	s.Set("Out", s.In("W").DType, sequences, table[1])
	s.PoolLoD("Out", "Ids")
	return nil
}

func bindFusedLookup[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, to := b.Op(), b.In("W"), batchIn(b, "Ids"), b.Out("Out")
	rows, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	if to.Len() != ids.n*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", to), fault.Wantf("%d rows of %d", ids.n, width))
	}
	return b.Loops(ops.Loop{N: ids.n, Apart: true, Whole: []string{"W"}, Run: func(_, from, till int) error {
		offsets, err := ids.offsets()
		if err != nil || from == till {
			return err
		}
		all, begin := ids.value.Int64s(), int(offsets[from])
		if err := opkit.CheckIDs(op, op.In("Ids"), all[begin:offsets[till]], begin, rows); err != nil {
			return err
		}
		kernel.EmbeddingSums(opkit.Owned[T](to, from, till, ids.n), tensor.Data[T](table), all, offsets[from:till+1], width, padding)
		return nil
	}})
}

func bindFusedLookupGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, ids, dout, dtable, padding := b.Op(), batchIn(b, "Ids"), b.In("Out@GRAD"), b.Out("W@GRAD"), b.Int("padding_idx")
	width := int(dtable.Dims()[1])
	if dout.Len() != ids.n*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", dout), fault.Wantf("%d rows of %d", ids.n, width))
	}
	check := func(rows int64) ([]int64, error) {
		offsets, err := ids.offsets()
		if err == nil {
			err = opkit.CheckIDs(op, op.In("Ids"), ids.value.Int64s(), 0, rows)
		}
		return offsets, err
	}
	if numbers, height := dtable.Selected(); numbers != nil {
		if numbers.Len() != ids.value.Len() || dtable.Len() != ids.value.Len()*width {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", dtable), fault.Want("a row for each id"))
		}
		return func(context.Context) error {
			offsets, err := check(height)
			if err != nil {
				return err
			}
			rows, values, from := numbers.Int64s(), tensor.Data[T](dtable), tensor.Data[T](dout)
			copy(rows, ids.value.Int64s())
			for i := range ids.n {
				if begin, end := int(offsets[i]), int(offsets[i+1]); begin < end {
					kernel.SequenceSumGrad(values[begin*width:end*width], row(from, i, width), width, 1)
				}
			}
			if padding != kernel.NoPadding {
				kernel.ClearRowsOf(values, rows, width, padding)
			}
			return nil
		}, nil
	}
	reads, rows := []string{"Ids", "Out@GRAD"}, dtable.Dims()[0]
	return b.Loops(ops.Loop{N: int(rows), Least: ids.value.Len(), Reads: reads, Whole: reads, Run: func(_, from, till int) error {
		offsets, err := check(rows)
		if err != nil {
			return err
		}
		kernel.EmbeddingSumsGrad(tensor.Data[T](dtable), ids.value.Int64s(), offsets, tensor.Data[T](dout), width, padding, from, till)
		return nil
	}})
}
