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
	return t.Select(garble(rows), meta.Dims[0])
}

// withRows returns t with the row numbers of like, when like is sparse.
func withRows(t, like *tensor.Tensor) *tensor.Tensor {
	if !like.IsSelected() {
		return t
	}
	rows, height := like.Selected()
	return must(t.Select(rows.Clone(), height))
}

// dense returns t as a whole, when it is sparse float64: rows that repeat are summed.
func dense(t *tensor.Tensor) *tensor.Tensor {
	if !t.IsSelected() {
		return t
	}
	rows, _ := t.Selected()
	whole := must(tensor.New(tensor.Float64, ops.MetaOfValue(t).Dims...))
	width := t.Len() / max(1, rows.Len())
	for i, row := range rows.Int64s() {
		for j := range width {
			whole.Float64s()[int(row)*width+j] += t.Float64s()[i*width+j]
		}
	}
	return whole
}

// sameRows reports whether two tensors are both dense or hold the same rows of equally tall tensors.
func sameRows(a, b *tensor.Tensor) bool {
	if !a.IsSelected() || !b.IsSelected() {
		return a.IsSelected() == b.IsSelected()
	}
	x, tall := a.Selected()
	y, height := b.Selected()
	return tall == height && slices.Equal(x.Int64s(), y.Int64s())
}
