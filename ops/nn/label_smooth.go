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
		Type: "label_smooth",
		Doc: "Takes some certainty from labels: Out = (1 - epsilon)*X + epsilon*PriorDist, where an absent PriorDist gives every " +
			"class the same share.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float, distributions on the last axis"},
			{Name: "PriorDist", Doc: "float, one number for each class; no gradient flows to it", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   []ops.Attr{{Name: "epsilon", Doc: "weight of the prior, in [0, 1]", Default: float32(0)}},
		Infer:   inferLabelSmooth,
		Cost:    opkit.PerElement(3),
		Bind:    opkit.BindFloats("X", bindLabelSmooth[float32], bindLabelSmooth[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = (1 - epsilon)*dOut.",
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out@GRAD"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Out@GRAD", bindLabelSmoothGrad[float32], bindLabelSmoothGrad[float64]),
	})
}

func inferLabelSmooth(s *ops.Shapes) error {
	x := s.In("X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "PriorDist"); err != nil {
		return err
	}
	if e := s.Float("epsilon"); !(e >= 0 && e <= 1) {
		return opkit.BadAttr(s, "epsilon", "in [0, 1]")
	}
	last := len(x.Dims) - 1
	if last < 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	if s.Has("PriorDist") && !opkit.Agree(ops.Product(s.In("PriorDist").Dims), x.Dims[last]) {
		return s.Errorf("PriorDist", "%d elements, the classes of X", x.Dims[last])
	}
	s.Like("Out", "X")
	return nil
}

func bindLabelSmooth[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, prior, to := b.In("X"), b.In("PriorDist"), b.Out("Out")
	classes, epsilon := int(x.Dims()[len(x.Dims())-1]), T(b.Float("epsilon"))
	return func(context.Context) error {
		kernel.LabelSmooth(tensor.Data[T](to), tensor.Data[T](x), opkit.Data[T](prior), classes, epsilon)
		return nil
	}, nil
}

func bindLabelSmoothGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx, keep := b.In("Out@GRAD"), b.Out("X@GRAD"), T(1-b.Float("epsilon"))
	return func(context.Context) error {
		kernel.Scale(tensor.Data[T](dx), tensor.Data[T](dout), keep, 0, true)
		return nil
	}, nil
}
