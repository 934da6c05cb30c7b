package control

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	array := ops.Slot{Name: "X", Doc: "an array"}
	index := ops.Slot{Name: "I", Doc: "one int64: the number of an item"}
	ops.Register(ops.Def{
		Type:    "write_to_array",
		Class:   ops.Control,
		Doc:     "Copies a tensor into an array: Out[I] = X. The array grows if it is shorter. Items may have different dims.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a tensor"}, index},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the array"}},
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensor, "a dense tensor"); err != nil {
				return err
			}
			m.Kind = program.LoDTensorArray
			s.SetAt("Out", 0, m)
			return oneOf(s, "I", tensor.Int64)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, i := b.In("X"), b.In("I")
			out, err := b.ArrayOut("Out")
			return func(context.Context) error {
				at, err := numberIn(b, "I", i)
				if err != nil {
					return err
				}
				return out.Put(at, x)
			}, err
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("write_to_array_grad")
			op.Inputs["X"], op.Inputs["I"], op.Inputs[outGrad] = g.In("X"), g.In("I"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix], op.Outputs[outGrad] = g.InGrad("X"), g.OutGrad("Out")
			return []*program.Op{op}, nil
		},
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:  "write_to_array_grad",
		Class: ops.Control,
		Doc: "Takes the gradient of an item out of the array of gradients: dX = dOut[I], zeros of the dims of X if there is none. The item is empty afterwards, " +
			"because what was written before it has no effect on what is read after.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "what the item was written from"}, index, {Name: outGrad, Doc: "an array of gradients"}},
		Outputs: []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "of the dims of X"}, {Name: outGrad, Doc: "the array"}},
		Infer: func(s *ops.Shapes) error {
			s.Like("X"+program.GradSuffix, "X")
			s.Like(outGrad, outGrad)
			return oneOf(s, "I", tensor.Int64)
		},
		Bind:      bindTake,
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "read_from_array",
		Class:   ops.Control,
		Doc:     "Copies an item of an array: Out = X[I]. With X_W, which Fluid gives it where it is the gradient of write_to_array, an empty item is zeros of the dims of X_W.",
		Inputs:  []ops.Slot{array, index, {Name: "X_W", Doc: "of an array of gradients: the tensor that was written to the item", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the dims of the item"}},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("read_from_array_grad")
			op.Inputs["I"], op.Inputs[outGrad] = g.In("I"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Infer: func(s *ops.Shapes) error {
			if m := s.In("X"); len(m.Dims) > 0 {
				m.Kind = program.LoDTensor
				if m.LoDLevel > 0 { // an item has sequences of its own
					m.Sequences, m.LoDOf, m.LoD = nil, "", nil
				}
				s.SetAt("Out", 0, m)
			}
			return oneOf(s, "I", tensor.Int64)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			i, out, written := b.In("I"), b.Out("Out"), b.In("X_W")
			x, err := b.ArrayIn("X")
			return func(context.Context) error {
				at, err := numberIn(b, "I", i)
				if err != nil {
					return err
				}
				if written != nil && out != nil && !x.Holds(at) {
					return zerosLike(out, written, b.Op().Out("Out"))
				}
				item, err := x.At(at)
				if err != nil {
					return err
				}
				return tensor.Assign(out, item)
			}, err
		},
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "read_from_array_grad",
		Class:   ops.Control,
		Doc:     "Adds a gradient to an item of an array of gradients: dX[I] += dOut. An empty item takes the value.",
		Inputs:  []ops.Slot{index, {Name: outGrad, Doc: "the gradient of what was read"}},
		Outputs: []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "the array of gradients"}},
		Infer: func(s *ops.Shapes) error {
			m := s.In(outGrad)
			if err := opkit.CheckType(s, outGrad, m.Kind == program.LoDTensor && m.DType.IsFloat(), "a dense tensor of floats"); err != nil {
				return err
			}
			m.Kind = program.LoDTensorArray
			s.SetAt("X"+program.GradSuffix, 0, m)
			return oneOf(s, "I", tensor.Int64)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			i, from := b.In("I"), b.In(outGrad)
			to, err := b.ArrayOut("X" + program.GradSuffix)
			return func(context.Context) error {
				at, err := numberIn(b, "I", i)
				if err != nil {
					return err
				}
				return addItem(to, at, from)
			}, err
		},
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "lod_array_length",
		Class:   ops.Control,
		Doc:     "Counts the items of an array.",
		Inputs:  []ops.Slot{array},
		Outputs: []ops.Slot{{Name: "Out", Doc: "one int64"}},
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Int64, 1)
			return nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			out := b.Out("Out")
			x, err := b.ArrayIn("X")
			return func(context.Context) error {
				if err := tensor.Resize(out, tensor.Int64, one...); err != nil {
					return err
				}
				out.Int64s()[0] = int64(x.Len())
				return nil
			}, err
		},
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "is_empty",
		Class:   ops.Control,
		Doc:     "Tells whether a tensor has no elements.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a tensor"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "one bool"}},
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Bool, 1)
			return opkit.CheckType(s, "X", s.In("X").Kind == program.LoDTensor, "a dense tensor")
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, out := b.In("X"), b.Out("Out")
			return func(context.Context) error {
				if err := tensor.Resize(out, tensor.Bool, one...); err != nil {
					return err
				}
				out.Bools()[0] = x.Len() == 0
				return nil
			}, nil
		},
		MixesRows: opkit.Mixes,
	})
}

// one is the dims of a number.
var one = []int64{1}

// numberIn returns the number in a slot.
func numberIn(b *ops.Binding, slot string, t *tensor.Tensor) (int64, error) {
	if t.DType() != tensor.Int64 || t.Len() != 1 {
		return 0, fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(slot)), fault.Gotf("%v%v", t.DType(), t.Dims()), fault.Want("one int64"))
	}
	return t.Int64s()[0], nil
}

// bindTake takes items out of an array of gradients.
func bindTake(b *ops.Binding) (ops.Kernel, error) {
	i, x, to := b.In("I"), b.In("X"), b.Out("X"+program.GradSuffix)
	from, err := b.ArrayOut(outGrad)
	return func(context.Context) error {
		at, err := numberIn(b, "I", i)
		if err != nil {
			return err
		}
		if from.Holds(at) {
			item, err := from.At(at)
			if err != nil {
				return err
			}
			if to != nil {
				if err := tensor.Assign(to, item); err != nil {
					return err
				}
				tensor.CopyLoD(to, x.LoD())
			}
			return from.Empty(at)
		}
		if to == nil {
			return nil
		}
		return zerosLike(to, x, b.Op().Out("X"+program.GradSuffix))
	}, err
}

// addItem adds value to an item of an array. An item without elements takes the value.
func addItem(a *ops.Array, i int64, value *tensor.Tensor) error {
	if !a.Holds(i) {
		return a.Put(i, value)
	}
	item, err := a.At(i)
	if err != nil {
		return err
	}
	return addTo(item, value)
}
