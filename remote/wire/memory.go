package wire

import (
	"unsafe"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Memory returns the bytes of a tensor's elements, shared. Bool is refused, because a byte that is neither 0 nor 1 would
// make a value that Go does not have.
func Memory(t *tensor.Tensor) ([]byte, error) {
	switch t.DType() {
	case tensor.Float32:
		return view(t.Float32s()), nil
	case tensor.Float64:
		return view(t.Float64s()), nil
	case tensor.Int64:
		return view(t.Int64s()), nil
	case tensor.Int32:
		return view(t.Int32s()), nil
	}
	return nil, fault.E(fault.Unsupported, fault.Got(t.String()+" on the wire"), fault.Want("float32, float64, int32 or int64"))
}

func view[T float32 | float64 | int32 | int64](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}
