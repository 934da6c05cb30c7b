package nn

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// sparseGradient makes the gradient of a table rows when the lookup is sparse: as many as there are ids.
func sparseGradient(s *ops.Shapes) {
	if !s.Bool("is_sparse") || !s.Wants("W@GRAD") {
		return
	}
	table := s.In("W")
	s.SetAt("W@GRAD", 0, ops.Meta{Kind: program.SelectedRows, DType: table.DType, Dims: table.Dims, Rows: ops.Product(s.In("Ids").Dims)})
}

// bindLookupRows makes the ids the rows of the gradient, and the gradient of Out its values. Rows of padding are zeros.
func bindLookupRows[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, table, ids, dout, dtable := b.Op(), b.In("W"), b.In("Ids"), b.In("Out@GRAD"), b.Out("W@GRAD")
	height, width, padding := table.Dims()[0], int(table.Dims()[1]), b.Int("padding_idx")
	numbers, _ := dtable.Selected()
	return func(context.Context) error {
		if err := checkIDs(op, ids.Int64s(), 0, height); err != nil {
			return err
		}
		rows := numbers.Int64s()
		copy(rows, ids.Int64s())
		values := tensor.Data[T](dtable)
		copy(values, tensor.Data[T](dout)) // nothing when the plan gave both the same memory
		if padding != kernel.NoPadding {
			kernel.ClearRowsOf(values, rows, width, padding)
		}
		return nil
	}, nil
}

// standIn returns memory for a copy of in when it may share its memory with out, which is as long, else nil.
func standIn(b *ops.Binding, in, out *tensor.Tensor) *tensor.Tensor {
	if in.Len() != out.Len() {
		return nil
	}
	return b.Scratch(in.DType(), in.Len())
}
