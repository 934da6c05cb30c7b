package kserve

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// datatypes are the protocol's names of element types.
var datatypes = map[tensor.DType]string{tensor.Bool: "BOOL", tensor.Int32: "INT32", tensor.Int64: "INT64", tensor.Float32: "FP32", tensor.Float64: "FP64",
	tensor.BFloat16: "BF16"}

// texts is the datatype of texts, which stand for keys.
const texts = "BYTES"

// checkType checks the datatype of an input. Keys may be texts.
func checkType(f *serving.Field, datatype string) error {
	if datatype == datatypes[f.DType] || f.Keys && datatype == texts {
		return nil
	}
	want := datatypes[f.DType]
	if f.Keys {
		want += " or " + texts
	}
	return fault.E(fault.TypeMismatch, fault.Var(f.Name), fault.Got("datatype "+fault.Quote(datatype)), fault.Want(want))
}

// lodParameter is the parameter of inputs and outputs whose rows form sequences: the offsets of the sequences, as tensor.ParseLoD takes them.
const lodParameter = "lod"

// dimsOf returns the dims of an input: those that a request declares, or else so many rows of the declared dims.
func dimsOf(f *serving.Field, shape []int64, elements int) ([]int64, error) {
	if shape == nil {
		width := 1
		if len(f.Dims) > 0 {
			n, ok := tensor.Count(f.Dims[1:])
			if !ok || n == 0 || f.Dims[0] >= 0 {
				return nil, fault.E(fault.InvalidArgument, fault.Var(f.Name), fault.Got("no shape"), fault.Wantf("one for %s", f))
			}
			width = n
		}
		if elements%width != 0 {
			return nil, fault.E(fault.ShapeMismatch, fault.Var(f.Name), fault.Gotf("%d numbers", elements), fault.Wantf("rows of %d", width))
		}
		return append([]int64{int64(elements / width)}, f.Dims[1:]...), nil
	}
	if n, ok := tensor.Count(shape); !ok || n != elements || len(shape) > tensor.MaxRank {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(f.Name), fault.Gotf("%d elements", elements), fault.Wantf("those of shape %v", shape[:min(len(shape), tensor.MaxRank)]))
	}
	return shape, nil
}
