package feedfile

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// number lists the element types that convert into each other.
type number interface {
	int32 | int64 | float32 | float64
}

// convert returns t as dtype, t itself where it is that already.
func convert(t *tensor.Tensor, dtype tensor.DType) (*tensor.Tensor, error) {
	if t.DType() == dtype {
		return t, nil
	}
	switch t.DType() {
	case tensor.Int32:
		return convertFrom(t, t.Int32s(), dtype)
	case tensor.Int64:
		return convertFrom(t, t.Int64s(), dtype)
	case tensor.Float32:
		return convertFrom(t, t.Float32s(), dtype)
	case tensor.Float64:
		return convertFrom(t, t.Float64s(), dtype)
	}
	return nil, mismatch(t.DType().String(), dtype)
}

func convertFrom[S number](t *tensor.Tensor, source []S, dtype tensor.DType) (*tensor.Tensor, error) {
	switch dtype {
	case tensor.Int32:
		return convertTo[S, int32](t, source)
	case tensor.Int64:
		return convertTo[S, int64](t, source)
	case tensor.Float32:
		return convertTo[S, float32](t, source)
	case tensor.Float64:
		return convertTo[S, float64](t, source)
	}
	return nil, mismatch(t.DType().String(), dtype)
}

// convertTo converts every element. Between floats, and from NaN and infinities, precision may go; otherwise the value must stay.
func convertTo[S, D number](t *tensor.Tensor, source []S) (*tensor.Tensor, error) {
	out := make([]D, len(source))
	rounds := t.DType().IsFloat() && tensor.Of[D]().IsFloat()
	for i, v := range source {
		out[i] = D(v)
		if !rounds && (float64(out[i]) != float64(v) || S(out[i]) != v) {
			return nil, mismatch(fmt.Sprintf("%v of %s at element %d", v, t.DType(), i), tensor.Of[D]())
		}
	}
	return tensor.FromSlice(out, t.Dims()...)
}

func mismatch(got string, want tensor.DType) error {
	return fault.E(fault.TypeMismatch, fault.Got(got), fault.Want(want.String()))
}
