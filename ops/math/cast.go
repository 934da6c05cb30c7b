package math

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "cast",
		Doc: "Converts elements to another type. Floats become integers by truncation towards zero; a number becomes true unless " +
			"it is 0, and true becomes 1.",
		Inputs:  in("X", "of type in_dtype"),
		Outputs: out("Out", "of the shape of X and type out_dtype"),
		Attrs: []ops.Attr{
			{Name: "in_dtype", Doc: "type of X, as Fluid numbers it", Kind: int32(0)},
			{Name: "out_dtype", Doc: "type of Out, as Fluid numbers it", Kind: int32(0)}},
		Infer:     inferCast,
		Gradient:  castGradient,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindElements("X", castFrom[float32], castFrom[float64], castFrom[int32], castFrom[int64], castFromBool),
		RowSliced: true,
	})
}

func inferCast(s *ops.Shapes) error {
	m := s.In("X")
	if from := tensor.DType(s.Int("in_dtype")); from != m.DType {
		return fault.E(fault.TypeMismatch, fault.Op("cast"), fault.Var(s.Op().In("X")), fault.Line(s.Op().Line()), fault.Gotf("X %v", m),
			fault.Wantf("%v, as in_dtype says", from))
	}
	to, err := opkit.DTypeAttr(s, "out_dtype")
	if err != nil {
		return err
	}
	m.DType = to
	s.SetAt("Out", 0, m)
	return nil
}

// castGradient casts back: dX = dOut in the type of X.
func castGradient(g *ops.Grad) ([]*program.Op, error) {
	op := g.GradOp("cast")
	op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
	op.SetAttr("in_dtype", int32(g.Int("out_dtype")))
	op.SetAttr("out_dtype", int32(g.Int("in_dtype")))
	return []*program.Op{op}, nil
}

func castFrom[From kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	return opkit.BindElements("Out", castWith(kernel.Cast[float32, From]), castWith(kernel.Cast[float64, From]),
		castWith(kernel.Cast[int32, From]), castWith(kernel.Cast[int64, From]), castWith(kernel.CastToBool[From]))(b)
}

func castFromBool(b *ops.Binding) (ops.Kernel, error) {
	return opkit.BindElements("Out", castWith(kernel.CastFromBool[float32]), castWith(kernel.CastFromBool[float64]),
		castWith(kernel.CastFromBool[int32]), castWith(kernel.CastFromBool[int64]), bindCopy)(b)
}

func castWith[To, From tensor.Element](f func(out []To, x []From)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("X"), b.Out("Out")
		return func(context.Context) error {
			f(tensor.Data[To](to), tensor.Data[From](x))
			return nil
		}, nil
	}
}
