package infer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// Matrix sees dims as a matrix: rows is the product of the first axes, cols that of the others. Either is program.Unknown
// when it is open.
func Matrix(dims []int64, axes int) (rows, cols int64) {
	return ops.Product(dims[:axes]), ops.Product(dims[axes:])
}

// Agree reports whether two extents can be equal.
func Agree(a, b int64) bool { return a == b || a == program.Unknown || b == program.Unknown }

// Same checks that the slots hold values of one dtype whose dims can be equal.
func Same(s *ops.Shapes, slots ...string) error {
	if err := s.SameType(slots...); err != nil {
		return err
	}
	for _, slot := range slots[1:] {
		if !ops.Compatible(s.In(slots[0]).Dims, s.In(slot).Dims) {
			return s.Errorf(slot, "dims %v as in %s", s.In(slots[0]).Dims, slots[0])
		}
	}
	return nil
}

// Rows checks that a slot holds a matrix of one column whose other extents are those of a slot of equal rank: labels
// beside predictions.
func Rows(s *ops.Shapes, slot, beside string) error {
	d, x := s.In(slot).Dims, s.In(beside).Dims
	last := len(x) - 1
	if last < 0 || len(d) != len(x) || !ops.Compatible(d[:last], x[:last]) || !Agree(d[last], 1) {
		return s.Errorf(slot, "the dims of %s %v with a last extent of 1", beside, x)
	}
	return nil
}

// Type checks the dtype of a slot by a predicate that want names.
func Type(s *ops.Shapes, slot string, ok bool, want string) error {
	if ok {
		return nil
	}
	return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(s.Op().In(slot)),
		fault.Gotf("%s %v", slot, s.In(slot)), fault.Want(want))
}
