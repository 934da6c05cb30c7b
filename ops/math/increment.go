package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "increment",
		Doc:     "Adds a number to a counter: Out = X + step. Out is usually the variable of X. No gradient flows through it.",
		Inputs:  in("X", "one number"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "step", Doc: "what is added", Default: float32(1)}},
		Infer: func(s *ops.Shapes) error {
			if !opkit.Agree(ops.Product(s.In("X").Dims), 1) {
				return s.Errorf("X", "one element")
			}
			return inferNumbersLike(s)
		},
		Bind:    opkit.BindNumbers("X", bindIncrement[float32], bindIncrement[float64], bindIncrement[int32], bindIncrement[int64]),
		InPlace: map[string]string{"Out": "X"},
	})
}

func bindIncrement[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to, step := b.In("X"), b.Out("Out"), T(b.Float("step"))
	return func(context.Context) error {
		tensor.Data[T](to)[0] = tensor.Data[T](x)[0] + step
		return nil
	}, nil
}
