package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerComparison("less_than", "X < Y", bindCompare(kernel.LessThan[float32]), bindCompare(kernel.LessThan[float64]),
		bindCompare(kernel.LessThan[int32]), bindCompare(kernel.LessThan[int64]))
	registerComparison("less_equal", "X <= Y", bindCompare(kernel.LessEqual[float32]), bindCompare(kernel.LessEqual[float64]),
		bindCompare(kernel.LessEqual[int32]), bindCompare(kernel.LessEqual[int64]))
	registerComparison("greater_than", "X > Y", bindCompare(kernel.GreaterThan[float32]), bindCompare(kernel.GreaterThan[float64]),
		bindCompare(kernel.GreaterThan[int32]), bindCompare(kernel.GreaterThan[int64]))
	registerComparison("greater_equal", "X >= Y", bindCompare(kernel.GreaterEqual[float32]), bindCompare(kernel.GreaterEqual[float64]),
		bindCompare(kernel.GreaterEqual[int32]), bindCompare(kernel.GreaterEqual[int64]))
	registerComparison("equal", "X == Y", bindCompare(kernel.Equal[float32]), bindCompare(kernel.Equal[float64]),
		bindCompare(kernel.Equal[int32]), bindCompare(kernel.Equal[int64]))
	registerComparison("not_equal", "X != Y", bindCompare(kernel.NotEqual[float32]), bindCompare(kernel.NotEqual[float64]),
		bindCompare(kernel.NotEqual[int32]), bindCompare(kernel.NotEqual[int64]))
}

func registerComparison(name, formula string, f32, f64, i32, i64 opkit.Binder) {
	ops.Register(ops.Def{
		Type:    name,
		Doc:     "Compares element by element: Out = " + formula + ".",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers"}, {Name: "Y", Doc: "of the shape and type of X"}},
		Outputs: out("Out", "bool of the shape of X"),
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if err := opkit.CheckType(s, "X", m.DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			m.DType = tensor.Bool
			s.SetAt("Out", 0, m)
			return opkit.SameShape(s, "X", "Y")
		},
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("X", f32, f64, i32, i64),
		RowSliced: true,
	})
}

func bindCompare[T tensor.Element](f func(out []bool, x, y []T)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
		return func(context.Context) error {
			f(to.Bools(), tensor.Data[T](x), tensor.Data[T](y))
			return nil
		}, nil
	}
}

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
