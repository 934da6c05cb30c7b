package bind

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A Binder is the Bind function of an op.
type Binder = func(*ops.Binding) (ops.Kernel, error)

// Nop is the kernel of an op whose outputs nobody wants.
func Nop(context.Context) error { return nil }

// Floats chooses a binder by the element type of a slot, which may be an input or an output.
func Floats(slot string, f32, f64 Binder) Binder {
	return choose(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64})
}

// Numbers is Floats for ops that compute with integers too.
func Numbers(slot string, f32, f64, i32, i64 Binder) Binder {
	return choose(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64, tensor.Int32: i32, tensor.Int64: i64})
}

// Elements is Floats for ops that take every element type.
func Elements(slot string, f32, f64, i32, i64, boolean Binder) Binder {
	return choose(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64, tensor.Int32: i32, tensor.Int64: i64, tensor.Bool: boolean})
}

// choose binds nothing when no output with elements is wanted. A binder thus finds at least one output that is not nil, and need
// not fear a loop over a huge extent beside one of 0.
func choose(slot string, binders map[tensor.DType]Binder) Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if !wanted(b) {
			return Nop, nil
		}
		t := b.In(slot)
		if t == nil {
			t = b.Out(slot)
		}
		if t == nil {
			return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Got("nothing in slot "+slot),
				fault.Want("a tensor"))
		}
		if bind := binders[t.DType()]; bind != nil {
			return bind(b)
		}
		return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Gotf("%s %v", slot, t),
			fault.Want("an element type that the op computes with"))
	}
}

func wanted(b *ops.Binding) bool {
	for slot := range b.Op().Outputs {
		for _, t := range b.Outs(slot) {
			if t != nil && t.Len() > 0 {
				return true
			}
		}
	}
	return false
}
