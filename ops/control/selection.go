package control

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A branch leaves its results in variables of its own. select_input takes those of the branch that was done, and its gradient select_output hands the gradient
// back to it.

func init() {
	mask := ops.Slot{Name: "Mask", Doc: "one int32: the number of a variable"}
	ops.Register(ops.Def{
		Type:    "select_input",
		Class:   ops.Control,
		Doc:     "Copies one of several tensors: Out = X[Mask].",
		Inputs:  []ops.Slot{{Name: "X", Doc: "tensors of one type and rank", Duplicable: true}, mask},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the dims of the tensor that is chosen"}},
		Infer: func(s *ops.Shapes) error {
			all := s.Ins("X")
			if len(all) == 0 {
				return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("nothing to select from"), fault.Want("one variable or more in X"))
			}
			m := all[0].WithoutLoD()
			m.Dims = append([]int64(nil), m.Dims...)
			for _, other := range all {
				if other.Kind != program.LoDTensor || other.DType != m.DType || len(other.Dims) != len(m.Dims) {
					return s.Errorf("X", "dense tensors of one type and one rank, not %v beside %v", other, m)
				}
				for i, d := range other.Dims {
					if d != m.Dims[i] {
						m.Dims[i] = program.Unknown
					}
				}
			}
			s.SetAt("Out", 0, m)
			return oneOf(s, "Mask", tensor.Int32)
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("select_output")
			op.Inputs["X"], op.Inputs["Mask"] = g.OutGrad("Out"), g.In("Mask")
			op.Outputs["Out"] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, at, out := b.Ins("X"), b.In("Mask"), b.Out("Out")
			return func(context.Context) error {
				i, err := chosen(b, at, len(x))
				if err != nil || out == nil {
					return err
				}
				return tensor.Assign(out, x[i])
			}, nil
		},
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "select_output",
		Class:   ops.Control,
		Doc:     "Copies a tensor to one of several: Out[Mask] = X. The others become 0, of the dims of X.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a tensor"}, mask},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X", Duplicable: true}},
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensor, "a dense tensor"); err != nil {
				return err
			}
			for i := range s.Outs("Out") {
				s.SetAt("Out", i, m.WithoutLoD())
			}
			return oneOf(s, "Mask", tensor.Int32)
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("select_input")
			op.Inputs["X"], op.Inputs["Mask"] = g.OutGrad("Out"), g.In("Mask")
			op.Outputs["Out"] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, at, out := b.In("X"), b.In("Mask"), b.Outs("Out")
			return func(context.Context) error {
				i, err := chosen(b, at, len(out))
				if err != nil {
					return err
				}
				for k, t := range out {
					if t == nil {
						continue
					}
					if k == i {
						err = tensor.Assign(t, x)
					} else {
						err = zerosLike(t, x, b.Op().Outputs["Out"][k])
					}
					if err != nil {
						return err
					}
				}
				return nil
			}, nil
		},
		MixesRows: opkit.Mixes,
	})
}

// chosen returns which of n variables a mask names.
func chosen(b *ops.Binding, mask *tensor.Tensor, n int) (int, error) {
	if mask.DType() != tensor.Int32 || mask.Len() != 1 {
		return 0, fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("Mask")), fault.Gotf("%v%v", mask.DType(), mask.Dims()), fault.Want("one int32"))
	}
	i := int(mask.Int32s()[0])
	if i < 0 || i >= n {
		return 0, fault.E(fault.InvalidArgument, fault.Var(b.Op().In("Mask")), fault.Gotf("variable %d", i), fault.Wantf("0 to %d", n-1))
	}
	return i, nil
}
