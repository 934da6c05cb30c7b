package tensor

import (
	"github.com/edl-go/edl/fault"
)

// Clone copies the tensor and its elements.
func (t *Tensor) Clone() *Tensor {
	c := &Tensor{dtype: t.dtype, dims: append([]int64(nil), t.dims...)}
	switch d := t.data.(type) {
	case []bool:
		c.data = append([]bool(nil), d...)
	case []int32:
		c.data = append([]int32(nil), d...)
	case []int64:
		c.data = append([]int64(nil), d...)
	case []float32:
		c.data = append([]float32(nil), d...)
	case []float64:
		c.data = append([]float64(nil), d...)
	}
	for _, level := range t.lod {
		c.lod = append(c.lod, append([]int64(nil), level...))
	}
	if t.rows != nil {
		c.rows, c.height = t.rows.Clone(), t.height
	}
	return c
}

// CopyFrom copies the elements of src, whose dtype and element count must be t's.
func (t *Tensor) CopyFrom(src *Tensor) error {
	if src.dtype != t.dtype || src.Len() != t.Len() {
		return fault.E(fault.ShapeMismatch, fault.Got(src.String()), fault.Want(t.String()))
	}
	switch d := t.data.(type) {
	case []bool:
		copy(d, src.data.([]bool))
	case []int32:
		copy(d, src.data.([]int32))
	case []int64:
		copy(d, src.data.([]int64))
	case []float32:
		copy(d, src.data.([]float32))
	case []float64:
		copy(d, src.data.([]float64))
	}
	return nil
}

// Share makes t refer to the elements of src, whose dtype and element count must be t's. Nothing is copied: it is how a
// feed enters a plan.
func (t *Tensor) Share(src *Tensor) error {
	if src.dtype != t.dtype || src.Len() != t.Len() {
		return fault.E(fault.ShapeMismatch, fault.Got(src.String()), fault.Want(t.String()))
	}
	t.data, t.lod = src.data, src.lod
	return nil
}

// Reshape returns a tensor of other dims over the same elements.
func (t *Tensor) Reshape(dims ...int64) (*Tensor, error) {
	n, err := check(t.dtype, dims)
	if err != nil {
		return nil, err
	}
	if n != t.Len() {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("dims %v", dims), fault.Wantf("%d elements", t.Len()))
	}
	return &Tensor{dtype: t.dtype, dims: append([]int64(nil), dims...), data: t.data}, nil
}

// Rows returns a view of rows [from, to) of axis 0. Nothing is copied.
func (t *Tensor) Rows(from, to int64) (*Tensor, error) {
	if len(t.dims) == 0 || from < 0 || to < from || to > t.dims[0] {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("rows [%d, %d)", from, to), fault.Want("rows within "+t.String()))
	}
	width := 1
	if t.dims[0] > 0 {
		width = t.Len() / int(t.dims[0])
	}
	a, b := int(from)*width, int(to)*width
	v := &Tensor{dtype: t.dtype, dims: append([]int64{to - from}, t.dims[1:]...)}
	switch d := t.data.(type) {
	case []bool:
		v.data = d[a:b:b]
	case []int32:
		v.data = d[a:b:b]
	case []int64:
		v.data = d[a:b:b]
	case []float32:
		v.data = d[a:b:b]
	case []float64:
		v.data = d[a:b:b]
	}
	return v, nil
}
