package nn

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "log_loss",
		Doc: "The cross entropy of the probability of one of two classes: Loss = -Labels*log(Predicted + epsilon) - " +
			"(1 - Labels)*log(1 - Predicted + epsilon).",
		Inputs: []ops.Slot{
			{Name: "Predicted", Doc: "float probabilities"},
			{Name: "Labels", Doc: "0 or 1, of the shape and type of Predicted"}},
		Outputs: []ops.Slot{{Name: "Loss", Doc: "of the shape and type of Predicted"}},
		Attrs:   []ops.Attr{{Name: "epsilon", Doc: "keeps the logarithms finite, at least 0", Kind: float32(0)}},
		Infer: func(s *ops.Shapes) error {
			if !(s.Float("epsilon") >= 0) {
				return opkit.BadAttr(s, "epsilon", "at least 0")
			}
			if err := s.IsFloat("Predicted"); err != nil {
				return err
			}
			s.Like("Loss", "Predicted")
			return opkit.SameShape(s, "Predicted", "Labels")
		},
		Cost:    opkit.PerElement(12),
		Bind:    opkit.BindFloats("Predicted", bindLogLoss[float32], bindLogLoss[float64]),
		InPlace: map[string]string{"Loss": "Predicted"},
	}, opkit.Gradient{
		Doc:     "dPredicted = dLoss*((1 - Labels)/(1 - Predicted + epsilon) - Labels/(Predicted + epsilon)).",
		Inputs:  []string{"Predicted", "Labels"},
		Wrt:     []string{"Predicted"},
		InPlace: map[string]string{"Predicted@GRAD": "Loss@GRAD"},
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("Predicted", bindLogLossGrad[float32], bindLogLossGrad[float64]),
	})
}

func bindLogLoss[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	p, labels, loss, epsilon := b.In("Predicted"), b.In("Labels"), b.Out("Loss"), b.Float("epsilon")
	return func(context.Context) error {
		kernel.LogLoss(tensor.Data[T](loss), tensor.Data[T](p), tensor.Data[T](labels), epsilon)
		return nil
	}, nil
}

func bindLogLossGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	p, labels, dloss, dp := b.In("Predicted"), b.In("Labels"), b.In("Loss@GRAD"), b.Out("Predicted@GRAD")
	epsilon := b.Float("epsilon")
	return func(context.Context) error {
		kernel.LogLossGrad(tensor.Data[T](dp), tensor.Data[T](p), tensor.Data[T](labels), tensor.Data[T](dloss), epsilon)
		return nil
	}, nil
}
