package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerComparison("less_than", "X < Y", bindCompare(kernel.LessThan[float32]), bindCompare(kernel.LessThan[float64]),
		bindCompare(kernel.LessThan[int32]), bindCompare(kernel.LessThan[int64]), nil)
	registerComparison("less_equal", "X <= Y", bindCompare(kernel.LessEqual[float32]), bindCompare(kernel.LessEqual[float64]),
		bindCompare(kernel.LessEqual[int32]), bindCompare(kernel.LessEqual[int64]), nil)
	registerComparison("greater_than", "X > Y", bindCompare(kernel.GreaterThan[float32]), bindCompare(kernel.GreaterThan[float64]),
		bindCompare(kernel.GreaterThan[int32]), bindCompare(kernel.GreaterThan[int64]), nil)
	registerComparison("greater_equal", "X >= Y", bindCompare(kernel.GreaterEqual[float32]), bindCompare(kernel.GreaterEqual[float64]),
		bindCompare(kernel.GreaterEqual[int32]), bindCompare(kernel.GreaterEqual[int64]), nil)
	registerComparison("equal", "X == Y", bindCompare(kernel.Equal[float32]), bindCompare(kernel.Equal[float64]),
		bindCompare(kernel.Equal[int32]), bindCompare(kernel.Equal[int64]), bindCompare(kernel.Equal[bool]))
	registerComparison("not_equal", "X != Y", bindCompare(kernel.NotEqual[float32]), bindCompare(kernel.NotEqual[float64]),
		bindCompare(kernel.NotEqual[int32]), bindCompare(kernel.NotEqual[int64]), bindCompare(kernel.NotEqual[bool]))
}

// registerComparison registers a comparison. boolean is nil for one that truth values do not have.
func registerComparison(name, formula string, f32, f64, i32, i64, boolean opkit.Binder) {
	what, bind := "numbers", opkit.BindNumbers("X", f32, f64, i32, i64)
	if boolean != nil {
		what, bind = "any type", opkit.BindElements("X", f32, f64, i32, i64, boolean)
	}
	ops.Register(ops.Def{
		Type:    name,
		Doc:     "Compares each element of X with the aligned element of Y: Out = " + formula + ".",
		Inputs:  []ops.Slot{{Name: "X", Doc: what}, {Name: "Y", Doc: "of the type of X; its dims are adjacent dims of X, or extents of 1 of both are repeated"}},
		Outputs: out("Out", "bool"),
		Attrs:   []ops.Attr{axisAttr},
		Infer: func(s *ops.Shapes) error {
			if err := opkit.CheckType(s, "X", boolean != nil || s.In("X").DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			return inferTruth(s)
		},
		Cost:      opkit.PerElement(1),
		Bind:      bind,
		RowSliced: true,
		MixesRows: broadcastMixesRows,
	})
}

// inferTruth gives Out the dims of X and Y, and the type bool.
func inferTruth(s *ops.Shapes) error {
	if err := inferBroadcast(s); err != nil {
		return err
	}
	m := s.Outs("Out")[0]
	m.DType = tensor.Bool
	s.SetAt("Out", 0, m)
	return nil
}

func bindCompare[T tensor.Element](f func(out []bool, x, y []T)) opkit.Binder { return bindPairs(f) }

// bindPairs binds a function of the elements of X and Y.
func bindPairs[T, To tensor.Element](f func(out []To, x, y []T)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
		if !slices.Equal(x.Dims(), to.Dims()) || !slices.Equal(y.Dims(), to.Dims()) {
			return bindBroadcast(b, copiesOf(b, x.Dims(), y.Dims()), f)
		}
		return b.Loops(ops.Loop{N: to.Len(), Run: func(_, from, till int) error {
			f(tensor.Data[To](to)[from:till], tensor.Data[T](x)[from:till], tensor.Data[T](y)[from:till])
			return nil
		}})
	}
}

func init() {
	both := []ops.Slot{{Name: "X", Doc: "bool"}, {Name: "Y", Doc: "bool; its dims are adjacent dims of X, or extents of 1 of both are repeated"}}
	logical := func(name, formula string, f func(out, x, y []bool)) {
		registerPairs(name, "Combines truth values element by element: Out = "+formula+".", both, true, opkit.BindElements("X", nil, nil, nil, nil, bindPairs(f)))
	}
	logical("logical_and", "X and Y", kernel.LogicalAnd)
	logical("logical_or", "X or Y", kernel.LogicalOr)
	logical("logical_xor", "X or Y, but not both", kernel.NotEqual[bool])
	registerNot("logical_not", "Turns truth values around: Out = not X.", "bool", true, opkit.BindElements("X", nil, nil, nil, nil, bindEach(kernel.LogicalNot)))

	bits := []ops.Slot{{Name: "X", Doc: "bool or integers"}, {Name: "Y", Doc: "of the type of X; its dims are adjacent dims of X, or extents of 1 of both are repeated"}}
	bitwise := func(name, formula string, i32, i64, boolean opkit.Binder) {
		registerPairs(name, "Combines the bits of each element of X and Y: Out = "+formula+".", bits, false, opkit.BindElements("X", nil, nil, i32, i64, boolean))
	}
	bitwise("bitwise_and", "X & Y", bindPairs(kernel.BitAnd[int32]), bindPairs(kernel.BitAnd[int64]), bindPairs(kernel.LogicalAnd))
	bitwise("bitwise_or", "X | Y", bindPairs(kernel.BitOr[int32]), bindPairs(kernel.BitOr[int64]), bindPairs(kernel.LogicalOr))
	bitwise("bitwise_xor", "X ^ Y", bindPairs(kernel.BitXor[int32]), bindPairs(kernel.BitXor[int64]), bindPairs(kernel.NotEqual[bool]))
	registerNot("bitwise_not", "Turns all bits around: Out = ^X.", "bool or integers", false,
		opkit.BindElements("X", nil, nil, bindEach(kernel.BitNot[int32]), bindEach(kernel.BitNot[int64]), bindEach(kernel.LogicalNot)))
}

// checkBits checks that X holds truth values, or also integers.
func checkBits(s *ops.Shapes, truth bool) error {
	t := s.In("X").DType
	if truth {
		return opkit.CheckType(s, "X", t == tensor.Bool, "bool")
	}
	return opkit.CheckType(s, "X", !t.IsFloat(), "bool or integers")
}

// registerPairs registers an op that combines elements of X and Y to some of their type.
func registerPairs(name, doc string, inputs []ops.Slot, truth bool, bind opkit.Binder) {
	ops.Register(ops.Def{
		Type: name, Doc: doc, Inputs: inputs, Outputs: out("Out", "of the type of X"), Attrs: []ops.Attr{axisAttr},
		Infer: func(s *ops.Shapes) error {
			if err := checkBits(s, truth); err != nil {
				return err
			}
			return inferBroadcast(s)
		},
		Cost: opkit.PerElement(1), Bind: bind, RowSliced: true, InPlace: map[string]string{"Out": "X"}, MixesRows: broadcastMixesRows,
	})
}

// registerNot registers an op that changes each element of X.
func registerNot(name, doc, what string, truth bool, bind opkit.Binder) {
	ops.Register(ops.Def{
		Type: name, Doc: doc, Inputs: in("X", what), Outputs: out("Out", "of the shape and type of X"),
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			return checkBits(s, truth)
		},
		Cost: opkit.PerElement(1), Bind: bind, RowSliced: true, InPlace: map[string]string{"Out": "X"},
	})
}

// bindEach binds a function of each element of X.
func bindEach[T, To tensor.Element](f func(out []To, x []T)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("X"), b.Out("Out")
		return b.Loops(ops.Loop{N: to.Len(), Run: func(_, from, till int) error {
			f(tensor.Data[To](to)[from:till], tensor.Data[T](x)[from:till])
			return nil
		}})
	}
}
