package infer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// BadAttr makes the fault of an attribute whose value does not suit the inputs.
func BadAttr(s *ops.Shapes, name, want string, args ...any) error {
	return fault.E(fault.InvalidArgument, fault.On(s.Op()),
		fault.Gotf("attribute %s = %v", name, s.Op().Attrs[name]), fault.Wantf(want, args...))
}

// Unsupported makes the fault of an attribute value that is legal in Fluid but not computed here.
func Unsupported(s *ops.Shapes, name, want string) error {
	return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Gotf("attribute %s = %v", name, s.Op().Attrs[name]),
		fault.Want(want))
}

// DType reads an attribute that holds the number of an element type, which kernels must be able to compute with.
func DType(s *ops.Shapes, name string) (tensor.DType, error) {
	v := s.Int(name)
	if d := tensor.DType(v); int64(d) == v && d.Computable() {
		return d, nil
	}
	return 0, BadAttr(s, name, "bool 0, int32 2, int64 3, float32 5 or float64 6")
}

// Axis turns an axis in [-rank, rank) into one in [0, rank).
func Axis(s *ops.Shapes, name string, axis int64, rank int) (int, error) {
	r := int64(rank)
	if axis < -r || axis >= r {
		return 0, BadAttr(s, name, "an axis in [%d, %d)", -r, r)
	}
	if axis < 0 {
		axis += r
	}
	return int(axis), nil
}
