package math

import (
	"context"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "clip",
		Doc:     "Limits each element: Out = min(max(X, min), max).",
		Inputs:  in("X", "float"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{
			{Name: "min", Doc: "least value, at most max", Kind: float32(0)},
			{Name: "max", Doc: "greatest value", Kind: float32(0)}},
		Infer:     inferClip,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("X", bindClip[float32], bindClip[float64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = dOut where min < X < max, else 0.",
		Inputs:  []string{"X"},
		Wrt:     []string{"X"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("X", bindClipGrad[float32], bindClipGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "clip_by_norm",
		Doc: "Shortens a vector: Out = X*max_norm/norm(X) when the Euclidean norm of X is above max_norm, else X. No gradient " +
			"flows through it. The norm is that of squared_l2_norm.",
		Inputs:  in("X", "float"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "max_norm", Doc: "greatest norm, above 0", Kind: float32(0)}},
		Infer:   inferClipByNorm,
		Cost:    opkit.PerElement(4),
		Bind:    opkit.BindFloats("X", bindClipByNorm[float32], bindClipByNorm[float64]),
		InPlace: map[string]string{"Out": "X"},
	})
}

func inferClip(s *ops.Shapes) error {
	if !(s.Float("min") <= s.Float("max")) {
		return opkit.BadAttr(s, "min", "at most max = %v", s.Float("max"))
	}
	s.Like("Out", "X")
	return s.IsFloat("X")
}

func bindClip[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	low, high := T(b.Float("min")), T(b.Float("max"))
	return func(context.Context) error {
		kernel.Clip(tensor.Data[T](to), tensor.Data[T](x), low, high)
		return nil
	}, nil
}

func bindClipGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	low, high := T(b.Float("min")), T(b.Float("max"))
	return func(context.Context) error {
		kernel.ClipGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](dout), low, high)
		return nil
	}, nil
}

func inferClipByNorm(s *ops.Shapes) error {
	if !(s.Float("max_norm") > 0) {
		return opkit.BadAttr(s, "max_norm", "a number above 0")
	}
	s.Like("Out", "X")
	return s.IsFloat("X")
}

func bindClipByNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, most := b.In("X"), b.Out("Out"), b.Float("max_norm")
	words := b.Scratch(tensor.Int64, kernel.SquareSumWords)
	return func(context.Context) error {
		from, factor := tensor.Data[T](x), T(1)
		if norm := math.Sqrt(squareSum(words.Int64s(), from)); norm > most {
			factor = T(most / norm)
		}
		kernel.Scale(tensor.Data[T](to), from, factor, 0, true)
		return nil
	}, nil
}
