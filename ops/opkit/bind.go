package opkit

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A Binder is the Bind function of an op.
type Binder = func(*ops.Binding) (ops.Kernel, error)

// Nop is a kernel that does nothing. An op binds it when nobody reads its outputs.
func Nop(context.Context) error { return nil }

// BindFloats makes the Bind of an op that computes with float32 and float64. The element type of a slot, an input or an output, chooses
// the binder.
//
// If no wanted output has elements, the op does nothing and no binder runs. So a binder finds at least one output that is not nil.
func BindFloats(slot string, f32, f64 Binder) Binder {
	return byDType(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64})
}

// BindNumbers is BindFloats for an op that computes with integers too.
func BindNumbers(slot string, f32, f64, i32, i64 Binder) Binder {
	return byDType(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64, tensor.Int32: i32, tensor.Int64: i64})
}

// BindElements is BindFloats for an op that takes every element type.
func BindElements(slot string, f32, f64, i32, i64, boolean Binder) Binder {
	return byDType(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64, tensor.Int32: i32, tensor.Int64: i64, tensor.Bool: boolean})
}

// BindBits is BindElements for an op that moves elements as they are, those of half types too.
func BindBits(slot string, f32, f64, i32, i64, boolean, halves Binder) Binder {
	return byDType(slot, map[tensor.DType]Binder{tensor.Float32: f32, tensor.Float64: f64, tensor.Int32: i32, tensor.Int64: i64, tensor.Bool: boolean,
		tensor.Float16: halves, tensor.BFloat16: halves})
}

// byDType binds nothing for outputs without elements. An input may declare a huge extent next to one of 0, and no loop may run over it.
func byDType(slot string, binders map[tensor.DType]Binder) Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if !wanted(b) {
			return Nop, nil
		}
		t := b.In(slot)
		if t == nil {
			t = b.Out(slot)
		}
		if t == nil {
			return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Got("no tensor in slot "+slot), fault.Want("a tensor"))
		}
		if bind := binders[t.DType()]; bind != nil {
			return bind(b)
		}
		return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Gotf("%s %v", slot, t), fault.Want("an element type that the op computes with"))
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

// Loop makes the result of a Bind from a loop over n elements. Element i of every output depends on element i of the inputs only, so
// executors may run parts of the loop at the same time.
func Loop(b *ops.Binding, n int, run func(from, to int)) (ops.Kernel, error) {
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		run(from, to)
		return nil
	}})
}

// Data returns the elements of t, and nil for a tensor that nobody wants.
func Data[T tensor.Bits](t *tensor.Tensor) []T {
	if t == nil {
		return nil
	}
	return tensor.Data[T](t)
}

// Owned returns the elements of t that the iterations [from, to) of n own (see ops.Loop), and nil for a tensor that nobody wants.
func Owned[T tensor.Bits](t *tensor.Tensor, from, to, n int) []T {
	if t == nil {
		return nil
	}
	all := tensor.Data[T](t)
	if len(all) != n {
		from, to = len(all)/n*from, len(all)/n*to
	}
	return all[from:to]
}

// Count returns the product of the extents of a tensor. It does not check for overflow: a tensor of these dims exists.
func Count(dims []int64) int {
	n, _ := tensor.Count(dims)
	return n
}

// Matrix flattens the dims of a tensor to a matrix: rows is the product of the first axes, cols that of the others.
func Matrix(dims []int64, axes int) (rows, cols int) { return Count(dims[:axes]), Count(dims[axes:]) }

// BindWanted is a Bind that refuses an op which nobody wants the results of: a slot that has program.Empty for a variable. Other ops leave such results out.
func BindWanted(bind Binder, slots ...string) Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		for _, slot := range slots {
			if outs := b.Outs(slot); len(outs) == 0 || slices.Contains(outs, nil) {
				return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Gotf("output %s without a variable", slot), fault.Want("one"))
			}
		}
		return bind(b)
	}
}
