package math

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// stack makes an axis of several tensors, and unstack makes several tensors of an axis: each is the gradient of the other. unbind is unstack by the name of
// Paddle 2.

var stackAxis = ops.Attr{Name: "axis", Default: int32(0), Doc: "the axis; negative counts from the end"}

func init() {
	ops.Register(ops.Def{
		Type:    "stack",
		Doc:     "Puts tensors of one shape side by side: position i of the new axis shows X[i].",
		Inputs:  []ops.Slot{{Name: "X", Doc: "any type, of one shape", Duplicable: true}},
		Outputs: out("Y", "of the type of X, with an axis more, whose extent is how many X there are"),
		Attrs:   []ops.Attr{stackAxis},
		Infer:   inferStack,
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("unstack")
			op.Inputs["X"], op.Outputs["Y"] = g.OutGrad("Y"), g.InGrad("X")
			op.SetAttr("num", int32(len(g.In("X"))))
			return []*program.Op{op}, nil
		},
		Bind: opkit.BindElements("X", bindStack[float32], bindStack[float64], bindStack[int32], bindStack[int64], bindStack[bool]),

		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool {
			axis := s.Int("axis")
			return axis == 0 || axis == -int64(len(s.In("X").Dims))-1
		},
	})
	for name, slot := range map[string]string{"unstack": "Y", "unbind": "Out"} {
		attrs := []ops.Attr{stackAxis}
		if name == "unstack" {
			attrs = append(attrs, ops.Attr{Name: "num", Doc: "how many outputs there are; 0 for as many as are named", Default: int32(0)})
		}
		ops.Register(ops.Def{
			Type:     name,
			Doc:      "Takes an axis apart: output i is what position i of the axis shows, without the axis.",
			Inputs:   in("X", "any type"),
			Outputs:  []ops.Slot{{Name: slot, Doc: "of the type of X, one for each position", Duplicable: true}},
			Attrs:    attrs,
			Infer:    func(s *ops.Shapes) error { return inferUnstack(s, slot) },
			Gradient: func(g *ops.Grad) ([]*program.Op, error) { return joinGradients(g, slot, "stack", "Y") },
			Bind: opkit.BindElements("X", bindUnstack[float32](slot), bindUnstack[float64](slot), bindUnstack[int32](slot), bindUnstack[int64](slot),
				bindUnstack[bool](slot)),
			MixesRows: opkit.MixesAlong("X", "axis"),
		})
	}
}

// joinGradients makes the gradient of X from those of the parts in an output slot, by an op that joins its X to an output. A gradient that did not
// arrive counts as zeros.
func joinGradients(g *ops.Grad, slot, opType, out string) ([]*program.Op, error) {
	var list []*program.Op
	arrived := g.OutGrad(slot)
	for i, name := range arrived {
		if name != program.Empty {
			continue
		}
		zeros := g.GradOp("fill_zeros_like")
		arrived[i] = program.GradName(g.Out(slot)[i])
		zeros.Inputs["X"], zeros.Outputs["Out"] = g.Out(slot)[i:i+1], arrived[i:i+1]
		list = append(list, zeros)
	}
	op := g.GradOp(opType)
	op.Inputs["X"], op.Outputs[out] = arrived, g.InGrad("X")
	if axis := g.In("AxisTensor"); len(axis) > 0 {
		op.Inputs["AxisTensor"] = axis
	}
	return append(list, op), nil
}

func inferStack(s *ops.Shapes) error {
	if err := s.SameType("X"); err != nil {
		return err
	}
	parts := s.Ins("X")
	dims := slices.Clone(parts[0].Dims)
	for _, part := range parts[1:] {
		if !ops.Compatible(dims, part.Dims) {
			return s.Errorf("X", "tensors of one shape, not also %v", part.Dims)
		}
		for i, extent := range part.Dims {
			dims[i] = max(dims[i], extent) // a known extent over an open one
		}
	}
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(dims)+1)
	if err != nil {
		return err
	}
	s.Set("Y", parts[0].DType, slices.Insert(dims, axis, int64(len(parts)))...)
	if axis > 0 {
		s.ShareLoD("Y", "X")
	}
	return nil
}

func inferUnstack(s *ops.Shapes, slot string) error {
	x, outs := s.In("X"), len(s.Outs(slot))
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(x.Dims))
	if err != nil {
		return err
	}
	if !opkit.Agree(x.Dims[axis], int64(outs)) {
		return s.Errorf("X", "an extent of %d on axis %d, one for each variable of %s", outs, axis, slot)
	}
	if num := s.Int("num"); slot == "Y" && num != 0 && num != int64(outs) {
		return opkit.BadAttr(s, "num", "%d, the variables of Y", outs)
	}
	dims := slices.Delete(slices.Clone(x.Dims), axis, axis+1)
	s.Set(slot, x.DType, dims...)
	if axis > 0 {
		s.ShareLoD(slot, "X")
	}
	return nil
}

func ones(n int) []int64 { return slices.Repeat([]int64{1}, n) }

func bindStack[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	to, xs := b.Out("Y"), b.Ins("X")
	parts := partsAlong(to.Dims(), axisOf(b, len(to.Dims())), xs, ones(len(xs)))
	return copyParts(b, "X", "Y", parts, func(from, till int) {
		whole := tensor.Data[T](to)
		for _, p := range parts {
			kernel.CopyStrided(whole, p.offset+from*p.stride, p.stride, tensor.Data[T](p.tensor), from*p.width, p.width, till-from, p.width)
		}
	})
}

func bindUnstack[T tensor.Element](slot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, outs := b.In("X"), b.Outs(slot)
		if len(outs) == 0 {
			return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Got("no outputs"), fault.Want("one for each position"))
		}
		return cut[T](b, "X", slot, x, partsAlong(x.Dims(), axisOf(b, len(x.Dims())), outs, ones(len(outs))))
	}
}
