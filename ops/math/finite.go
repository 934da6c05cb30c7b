package math

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	for _, c := range []struct {
		name, what string
		all        bool // of the first generation: whether all elements must be so, or one
		is         func(float64) bool
	}{
		{"isfinite", "neither NaN nor infinite", true, func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }},
		{"isinf", "infinite", false, func(v float64) bool { return math.IsInf(v, 0) }},
		{"isnan", "NaN", false, math.IsNaN},
	} {
		ops.Register(ops.Def{
			Type:    c.name + "_v2",
			Doc:     "Finds out of each element whether it is " + c.what + ".",
			Inputs:  in("X", "float"),
			Outputs: out("Out", "bool of the shape of X"),
			Infer: func(s *ops.Shapes) error {
				m := s.In("X")
				m.DType = tensor.Bool
				s.SetAt("Out", 0, m)
				return opkit.FloatSoFar(s, "X")
			},
			Cost: opkit.PerElement(1),
			Bind: opkit.BindFloats("X", bindEach(truths[float32](c.is)), bindEach(truths[float64](c.is))),
		})
		ops.Register(ops.Def{
			Type:    c.name,
			Doc:     "Finds out whether " + map[bool]string{true: "all elements are ", false: "an element is "}[c.all] + c.what + ".",
			Inputs:  in("X", "float"),
			Outputs: out("Out", "bool, dims [1]"),
			Infer: func(s *ops.Shapes) error {
				s.Set("Out", tensor.Bool, 1)
				return opkit.FloatSoFar(s, "X")
			},
			Cost:      opkit.PerElement(1),
			Bind:      opkit.BindFloats("X", bindFinding[float32](c.is, c.all), bindFinding[float64](c.is, c.all)),
			MixesRows: opkit.Mixes,
		})
	}
	operands := []ops.Slot{{Name: "Input", Doc: "float"}, {Name: "Other", Doc: "of the shape and type of Input"}, tensorOf("Rtol", "rtol"), tensorOf("Atol", "atol")}
	tolerances := []ops.Attr{{Name: "rtol", Doc: "relative tolerance", Default: float32(1e-5), Tensor: "Rtol"}, {Name: "atol", Doc: "absolute tolerance", Default: float32(1e-8), Tensor: "Atol"},
		{Name: "equal_nan", Doc: "whether two NaN are close", Default: false}}
	ops.Register(ops.Def{
		Type:    "isclose",
		Doc:     "Finds out of each element whether it is close: |Input - Other| <= atol + rtol*|Other|.",
		Inputs:  operands,
		Outputs: out("Out", "bool, of the shape of Input"),
		Attrs:   tolerances,
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "Input")
			m := s.Outs("Out")[0]
			m.DType = tensor.Bool
			s.SetAt("Out", 0, m)
			if err := s.IsFloat("Input"); err != nil {
				return err
			}
			return opkit.SameShape(s, "Input", "Other")
		},
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("Input", isClose[float32], isClose[float64]),
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return !divided("Input") || !divided("Other") },
	})
	ops.Register(ops.Def{
		Type:    "allclose",
		Doc:     "Finds out whether all elements are close: |Input - Other| <= atol + rtol*|Other|.",
		Inputs:  operands,
		Outputs: out("Out", "bool, dims [1]"),
		Attrs:   tolerances,
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Bool, 1)
			if err := s.IsFloat("Input"); err != nil {
				return err
			}
			return opkit.SameShape(s, "Input", "Other")
		},
		Cost:      opkit.PerElement(4),
		Bind:      bindAllClose,
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "equal_all",
		Doc:     "Finds out whether X and Y have the same dims and equal elements.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "any type"}, {Name: "Y", Doc: "of the type of X"}},
		Outputs: out("Out", "bool, dims [1]"),
		Attrs:   []ops.Attr{{Name: "axis", Doc: "no effect", Default: int32(-1)}},
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Bool, 1)
			return s.SameType("X", "Y")
		},
		Cost:      opkit.PerElement(1),
		Bind:      bindEqualAll,
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "minus",
		Doc:     "Subtracts: Out = X - Y.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers"}, {Name: "Y", Doc: "of the shape and type of X"}},
		Outputs: out("Out", "of the shape and type of X"),
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			if err := opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			return opkit.SameShape(s, "X", "Y")
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			var list []*program.Op
			for i, slot := range []string{"X", "Y"} {
				if to := g.InGrad(slot); !slices.Contains(to, program.Empty) {
					list = append(list, scaleOf(g, g.OutGrad("Out"), to, float32(1-2*i)))
				}
			}
			return list, nil
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindNumbers("X", bindPairs(subtract[float32]), bindPairs(subtract[float64]), bindPairs(subtract[int32]), bindPairs(subtract[int64])),

		MixesRows: allDivided,
		RowSliced: true,
	})
}

func subtract[T int32 | int64 | float32 | float64](out, x, y []T) {
	for i, v := range x {
		out[i] = v - y[i]
	}
}

// truths makes a function of each element from a function of a number.
func truths[T tensor.Float](is func(float64) bool) func(out []bool, x []T) {
	return func(out []bool, x []T) {
		for i, v := range x {
			out[i] = is(float64(v))
		}
	}
}

func bindFinding[T tensor.Float](is func(float64) bool, all bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("X"), b.Out("Out")
		return opkit.Loop(b, 1, func(int, int) {
			to.Bools()[0] = all
			for _, v := range tensor.Data[T](x) {
				if is(float64(v)) != all {
					to.Bools()[0] = !all
					return
				}
			}
		})
	}
}

func bindAllClose(b *ops.Binding) (ops.Kernel, error) {
	return opkit.BindFloats("Input", allClose[float32], allClose[float64])(b)
}

func allClose[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("Input"), b.In("Other"), b.Out("Out")
	close := closeness[T](b)
	return opkit.Loop(b, 1, func(int, int) {
		to.Bools()[0] = true
		for i, v := range tensor.Data[T](x) {
			if !close(v, tensor.Data[T](y)[i]) {
				to.Bools()[0] = false
				return
			}
		}
	})
}

// isClose is allClose of each element.
func isClose[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("Input"), b.In("Other"), b.Out("Out")
	close := closeness[T](b)
	return b.Loops(ops.Loop{N: to.Len(), Reads: []string{"Input", "Other"}, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			to.Bools()[i] = close(tensor.Data[T](x)[i], tensor.Data[T](y)[i])
		}
		return nil
	}})
}

// closeness returns the relation of allclose and isclose.
func closeness[T tensor.Float](b *ops.Binding) func(x, y T) bool {
	relative, absolute, nan := b.Float("rtol"), b.Float("atol"), b.Bool("equal_nan")
	return func(x, y T) bool {
		a, c := float64(x), float64(y)
		return a == c || math.Abs(a-c) <= absolute+relative*math.Abs(c) || nan && math.IsNaN(a) && math.IsNaN(c)
	}
}

func bindEqualAll(b *ops.Binding) (ops.Kernel, error) {
	switch b.In("X").DType() {
	case tensor.Float32:
		return equalAll[float32](b), nil
	case tensor.Float64:
		return equalAll[float64](b), nil
	case tensor.Int64:
		return equalAll[int64](b), nil
	case tensor.Int32:
		return equalAll[int32](b), nil
	}
	return equalAll[bool](b), nil
}

func equalAll[T tensor.Element](b *ops.Binding) ops.Kernel {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	return func(context.Context) error {
		if to != nil {
			to.Bools()[0] = slices.Equal(x.Dims(), y.Dims()) && slices.Equal(tensor.Data[T](x), tensor.Data[T](y))
		}
		return nil
	}
}
