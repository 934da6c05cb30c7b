package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "scale",
		Doc:     "Multiplies by a number and adds one: Out = scale*X + bias, or scale*(X + bias) with bias_after_scale false.",
		Inputs:  in("X", "numbers"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{
			{Name: "scale", Doc: "factor", Default: float32(1)},
			{Name: "bias", Doc: "what is added", Default: float32(0)},
			{Name: "bias_after_scale", Doc: "whether bias is added after the multiplication", Default: true}},
		Infer:     inferNumbersLike,
		Gradient:  scaleGradient,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindNumbers("X", bindScale[float32], bindScale[float64], bindScale[int32], bindScale[int64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

// inferNumbersLike gives Out the shape of X, which holds numbers.
func inferNumbersLike(s *ops.Shapes) error {
	s.Like("Out", "X")
	return opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers")
}

// scaleGradient is the scale op again, without the bias: dX = scale*dOut.
func scaleGradient(g *ops.Grad) ([]*program.Op, error) {
	op := scaleOf(g, g.OutGrad("Out"), g.InGrad("X"), 1)
	if factor, set := g.Op().Attrs["scale"]; set {
		op.SetAttr("scale", factor)
	}
	return []*program.Op{op}, nil
}

// scaleOf makes the op to = factor*from.
func scaleOf(g *ops.Grad, from, to []string, factor float32) *program.Op {
	op := g.GradOp("scale")
	op.Inputs["X"], op.Outputs["Out"] = from, to
	op.SetAttr("scale", factor)
	op.SetAttr("bias", float32(0))
	op.SetAttr("bias_after_scale", true)
	return op
}

func bindScale[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	scale, bias, after := T(b.Float("scale")), T(b.Float("bias")), b.Bool("bias_after_scale")
	return opkit.Loop(b, x.Len(), func(from, till int) {
		kernel.Scale(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till], scale, bias, after)
	})
}
