// Package dense converts between the tensors of EDL and those of gorgonia.org/tensor, without copying: both sides see one
// piece of memory afterwards. It is a package of its own so that only programs that ask for Gorgonia are linked with it.
package dense

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	_ "go4.org/unsafe/assume-no-moving-gc" // the version that knows this Go release; without it Gorgonia ends the process
	gorgonia "gorgonia.org/tensor"
)

// Dense returns t as a dense tensor of Gorgonia. The level of detail is left behind. A tensor of rank 0 becomes a scalar. Gorgonia has no
// tensors with an extent of 0; these are Unsupported.
func Dense(t *tensor.Tensor) (*gorgonia.Dense, error) {
	if t.Len() == 0 {
		return nil, fault.E(fault.Unsupported, fault.Got(t.String()), fault.Want("at least one element"))
	}
	if t.DType().IsHalf() {
		return nil, fault.E(fault.Unsupported, fault.Got(t.String()), fault.Want("bool, int32, int64, float32 or float64"))
	}
	shape := make(gorgonia.Shape, len(t.Dims()))
	for i, d := range t.Dims() {
		shape[i] = int(d)
	}
	return gorgonia.New(gorgonia.WithShape(shape...), gorgonia.WithBacking(elements(t))), nil
}

// elements returns the slice of elements that t holds.
func elements(t *tensor.Tensor) any {
	switch t.DType() {
	case tensor.Bool:
		return t.Bools()
	case tensor.Int32:
		return t.Int32s()
	case tensor.Int64:
		return t.Int64s()
	case tensor.Float32:
		return t.Float32s()
	default:
		return t.Float64s()
	}
}

// FromDense returns d as a tensor of EDL. d must be contiguous and row-major, of bool, int32, int64, float32 or float64; a view
// or a transposed tensor must be materialized before.
func FromDense(d *gorgonia.Dense) (*tensor.Tensor, error) {
	if d.RequiresIterator() || d.DataOrder().IsColMajor() || d.DataOrder().IsNotContiguous() || d.DataOrder().IsTransposed() {
		return nil, fault.E(fault.Unsupported, fault.Gotf("a tensor of strides %v", d.Strides()), fault.Want("a contiguous row-major one"),
			fault.Hint("call Materialize or Clone"))
	}
	dims := make([]int64, d.Dims())
	for i, n := range d.Shape() {
		dims[i] = int64(n)
	}
	switch d.Dtype() {
	case gorgonia.Bool:
		return tensor.FromSlice(d.Bools(), dims...)
	case gorgonia.Int32:
		return tensor.FromSlice(d.Int32s(), dims...)
	case gorgonia.Int64:
		return tensor.FromSlice(d.Int64s(), dims...)
	case gorgonia.Float32:
		return tensor.FromSlice(d.Float32s(), dims...)
	case gorgonia.Float64:
		return tensor.FromSlice(d.Float64s(), dims...)
	}
	return nil, fault.E(fault.TypeMismatch, fault.Gotf("a tensor of %v", d.Dtype()), fault.Want("bool, int32, int64, float32 or float64"))
}
