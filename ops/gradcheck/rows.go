package gradcheck

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Rows makes a sparse float64 tensor: rows of one of the given height.
func Rows(height int64, rows []int64, dims []int64, values ...float64) *tensor.Tensor {
	return must((&tensor.SelectedRows{Rows: rows, Height: height, Value: Floats(dims, values...)}).Tensor())
}

// allocate makes the garbled tensor of an output.
func allocate(meta ops.Meta) (*tensor.Tensor, error) {
	t, err := tensor.New(meta.DType, meta.Stored()...)
	if err != nil {
		return nil, err
	}
	garble(t)
	if meta.Kind != program.SelectedRows {
		return t, nil
	}
	rows, err := tensor.New(tensor.Int64, meta.Rows)
	if err != nil {
		return nil, err
	}
	return (&tensor.SelectedRows{Rows: garble(rows).Int64s(), Height: meta.Dims[0], Value: t}).Tensor()
}

// withRows returns t with the row numbers of like, when like is sparse.
func withRows(t, like *tensor.Tensor) *tensor.Tensor {
	s := like.Selected()
	if s == nil {
		return t
	}
	return must((&tensor.SelectedRows{Rows: slices.Clone(s.Rows), Height: s.Height, Value: t}).Tensor())
}

// dense returns t as a whole, when it is sparse float64: rows that repeat are summed.
func dense(t *tensor.Tensor) *tensor.Tensor {
	s := t.Selected()
	if s == nil {
		return t
	}
	whole := must(tensor.New(tensor.Float64, ops.MetaOfValue(t).Dims...))
	width := t.Len() / max(1, len(s.Rows))
	for i, row := range s.Rows {
		for j := range width {
			whole.Float64s()[int(row)*width+j] += t.Float64s()[i*width+j]
		}
	}
	return whole
}

// sameRows reports whether two tensors are both dense or hold the same rows of equally tall tensors.
func sameRows(a, b *tensor.Tensor) bool {
	x, y := a.Selected(), b.Selected()
	if x == nil || y == nil {
		return x == y
	}
	return x.Height == y.Height && slices.Equal(x.Rows, y.Rows)
}
