package opkit

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Attributed is what knows its op: ops.Shapes during inference, and ops.Binding.
type Attributed interface{ Op() *program.Op }

// BadAttr makes the error of an attribute whose value does not suit the op or its inputs. want is a format.
func BadAttr(s Attributed, name, want string, args ...any) error {
	return fault.E(fault.InvalidArgument, fault.On(s.Op()), gotAttr(s, name), fault.Wantf(want, args...))
}

// UnsupportedAttr makes the error of an attribute value that Fluid allows and the op does not compute.
func UnsupportedAttr(s Attributed, name, want string) error {
	return fault.E(fault.Unsupported, fault.On(s.Op()), gotAttr(s, name), fault.Want(want))
}

func gotAttr(s Attributed, name string) fault.Field {
	return fault.Gotf("attribute %s = %v", name, s.Op().Attrs[name])
}

// DTypeAttr reads an attribute that holds the number of an element type. Kernels must be able to compute with the type.
func DTypeAttr(s *ops.Shapes, name string) (tensor.DType, error) {
	v := s.Int(name)
	if d := tensor.DType(v); int64(d) == v && d.Computable() {
		return d, nil
	}
	return 0, BadAttr(s, name, "bool 0, int32 2, int64 3, float32 5 or float64 6")
}

// AxisAttr turns an axis in [-rank, rank), which the named attribute gives, into one in [0, rank).
func AxisAttr(s Attributed, name string, axis int64, rank int) (int, error) {
	r := int64(rank)
	if axis < -r || axis >= r {
		return 0, BadAttr(s, name, "an axis in [%d, %d)", -r, r)
	}
	if axis < 0 {
		axis += r
	}
	return int(axis), nil
}

// numbers are the types of an op that takes no truth values.
const numbers = "numbers"

// CheckType makes the error of a slot that holds a wrong type, unless ok. want names the right types. Versions of Paddle compute many ops of numbers for truth values, too: an op that
// wants numbers and gets those is unsupported.
func CheckType(s *ops.Shapes, slot string, ok bool, want string) error {
	if ok {
		return nil
	}
	if want == numbers && s.In(slot).DType == tensor.Bool {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In(slot)), fault.Gotf("%s %v", slot, s.In(slot)), fault.Want(want), fault.Hint(castFirst))
	}
	return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(s.Op().In(slot)), fault.Gotf("%s %v", slot, s.In(slot)), fault.Want(want))
}

// castFirst says what to do where an op has a kernel for other types only.
const castFirst = "EDL has no such types for this op yet: add a cast"

// FloatSoFar is Shapes.IsFloat for an op that versions of Paddle compute for integers and truth values, too: a program with them is fine, so the fault is of kind Unsupported.
func FloatSoFar(s *ops.Shapes, slot string) error { return notYet(s.IsFloat(slot)) }

// OneTypeSoFar is Shapes.SameType for an op to which programs of Paddle give operands of several types: such a program is fine, so the fault is of kind Unsupported.
func OneTypeSoFar(s *ops.Shapes, slots ...string) error { return notYet(s.SameType(slots...)) }

// notYet makes a fault about a type one about a type that EDL does not compute with yet.
func notYet(err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	c := *f
	c.Kind, c.Hint = fault.Unsupported, castFirst
	return &c
}

// SameShape checks that input slots hold values of one element type and of equal dims. An open extent equals any other.
func SameShape(s *ops.Shapes, slots ...string) error {
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

// Agree reports whether two extents can be equal. An open extent can equal any.
func Agree(a, b int64) bool { return a == b || a == program.Unknown || b == program.Unknown }

// MatrixDims is Matrix for dims that may be open: rows or cols is program.Unknown if an extent of it is open.
func MatrixDims(dims []int64, axes int) (rows, cols int64) {
	return ops.Product(dims[:axes]), ops.Product(dims[axes:])
}

// Size returns the product of extents for a cost estimate. An open extent counts as 1. The product stops growing at 2**44, so that no
// estimate overflows.
func Size(dims []int64) int64 {
	const most = 1 << 44
	n := int64(1)
	for _, d := range dims {
		switch {
		case d < 0:
		case d > 0 && n > most/d:
			return most
		default:
			n *= d
		}
	}
	return n
}

// Bytes returns the bytes of all inputs and outputs, for a cost estimate.
func Bytes(s *ops.Shapes) int64 {
	total := int64(0)
	for slot := range s.Op().Inputs {
		total += bytesOf(s.Ins(slot))
	}
	for slot := range s.Op().Outputs {
		total += bytesOf(s.Outs(slot))
	}
	return total
}

func bytesOf(metas []ops.Meta) int64 {
	total := int64(0)
	for _, m := range metas {
		if m.DType.Size() > 0 && m.Kind != 0 {
			total += Size(m.Dims) * int64(m.DType.Size())
		}
	}
	return total
}

// PerElement makes the Cost of an op that does flops operations for each element of its largest input or output.
func PerElement(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		largest := int64(0)
		for slot := range s.Op().Inputs {
			for _, m := range s.Ins(slot) {
				largest = max(largest, Size(m.Dims))
			}
		}
		for slot := range s.Op().Outputs {
			for _, m := range s.Outs(slot) {
				largest = max(largest, Size(m.Dims))
			}
		}
		return ops.Cost{Flops: flops * largest, Bytes: Bytes(s)}
	}
}

// InOrder ranges over a map in the order of its keys. An inference that checks what a map lists reports the same fault of several in every run.
func InOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// CheckIDDims checks that the ids of a lookup stand on a last axis of extent 1. The error says how a field of several ids gets it.
func CheckIDDims(s *ops.Shapes, slot string) error {
	ids := s.In(slot).Dims
	switch {
	case len(ids) == 0:
		return s.Errorf(slot, "a last extent of 1")
	case Agree(ids[len(ids)-1], 1):
		return nil
	}
	var b strings.Builder
	for _, d := range ids {
		fmt.Fprintf(&b, "%d, ", max(d, 0)) // 0 keeps an open extent
	}
	return s.Errorf(slot, "a last extent of 1, as layers.Reshape(ids, []int64{%s1}) gives it", b.String())
}
