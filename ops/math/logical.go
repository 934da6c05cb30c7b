package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	both := []ops.Slot{{Name: "X", Doc: "bool"}, {Name: "Y", Doc: "bool of the shape of X"}}
	ops.Register(logical("logical_not", "not X", in("X", "bool"), func(b *ops.Binding) func() {
		x, to := b.In("X"), b.Out("Out")
		return func() { kernel.LogicalNot(to.Bools(), x.Bools()) }
	}))
	ops.Register(logical("logical_and", "X and Y", both, func(b *ops.Binding) func() {
		x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
		return func() { kernel.LogicalAnd(to.Bools(), x.Bools(), y.Bools()) }
	}))
	ops.Register(logical("logical_or", "X or Y", both, func(b *ops.Binding) func() {
		x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
		return func() { kernel.LogicalOr(to.Bools(), x.Bools(), y.Bools()) }
	}))
}

func logical(name, formula string, inputs []ops.Slot, prepare func(*ops.Binding) func()) ops.Def {
	return ops.Def{
		Type:    name,
		Doc:     "Combines truth values element by element: Out = " + formula + ".",
		Inputs:  inputs,
		Outputs: out("Out", "bool of the shape of X"),
		Infer: func(s *ops.Shapes) error {
			if err := opkit.CheckType(s, "X", s.In("X").DType == tensor.Bool, "bool"); err != nil {
				return err
			}
			s.Like("Out", "X")
			if len(inputs) == 1 {
				return nil
			}
			return opkit.SameShape(s, "X", "Y")
		},
		Cost: opkit.PerElement(1),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			if b.Out("Out") == nil {
				return opkit.Nop, nil
			}
			run := prepare(b)
			return func(context.Context) error { run(); return nil }, nil
		},
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	}
}
