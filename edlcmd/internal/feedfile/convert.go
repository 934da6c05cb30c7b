package feedfile

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// source lists the element types of files that convert into numbers of tensors.
type source interface {
	int8 | uint8 | int32 | int64 | float32 | float64
}

// number lists the element types of tensors that are numbers.
type number interface {
	int32 | int64 | float32 | float64
}

// convert returns numbers as a tensor of the dtype.
func convert[S source](data []S, dtype tensor.DType, dims ...int64) (*tensor.Tensor, error) {
	switch dtype {
	case tensor.Int32:
		return convertTo[S, int32](data, dims)
	case tensor.Int64:
		return convertTo[S, int64](data, dims)
	case tensor.Float32:
		return convertTo[S, float32](data, dims)
	case tensor.Float64:
		return convertTo[S, float64](data, dims)
	}
	return nil, mismatch(name[S](), dtype)
}

func convertTo[S source, D number](data []S, dims []int64) (*tensor.Tensor, error) {
	out, err := appendNumbers(make([]D, 0, len(data)), data)
	if err != nil {
		return nil, err
	}
	return tensor.FromSlice(out, dims...)
}

// appendNumbers appends data to dst. Between floats, and from NaN and infinities, precision may go; otherwise each value must stay.
func appendNumbers[S source, D number](dst []D, data []S) ([]D, error) {
	rounds := S(1)/2 != 0 && D(1)/2 != 0
	for _, v := range data {
		d := D(v)
		if !rounds && (float64(d) != float64(v) || S(d) != v) {
			return nil, mismatch(fmt.Sprintf("%v of %s at element %d", v, name[S](), len(dst)), tensor.Of[D]())
		}
		dst = append(dst, d)
	}
	return dst, nil
}

// name is how messages name an element type of a file.
func name[S source]() string {
	var v S
	return fmt.Sprintf("%T", v)
}

func mismatch(got string, want tensor.DType) error {
	return fault.E(fault.TypeMismatch, fault.Got(got), fault.Want(want.String()))
}
