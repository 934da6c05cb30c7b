package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "softmax",
		Doc:     "Turns the last axis of X into probabilities: Out = exp(X - max(X)) / sum(exp(X - max(X))).",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, rank 1 or more"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   []ops.Attr{{Name: "axis", Doc: "the axis that sums to 1; only the last one is computed here", Default: int32(-1)}},
		Infer:   inferSoftmax,
		Cost:    opkit.PerElement(6),
		Bind:    opkit.BindFloats("X", bindSoftmax[float32], bindSoftmax[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = Out*(dOut - sum(dOut*Out)), the sum over the last axis.",
		Outputs: []string{"Out"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(4),
		Bind:    opkit.BindFloats("Out", bindSoftmaxGrad[float32], bindSoftmaxGrad[float64]),
	})
}

func inferSoftmax(s *ops.Shapes) error {
	rank := len(s.In("X").Dims)
	if rank == 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), rank)
	if err != nil {
		return err
	}
	if axis != rank-1 {
		return opkit.UnsupportedAttr(s, "axis", "-1, the last axis; transpose2 moves another one there")
	}
	s.Like("Out", "X")
	return s.IsFloat("X")
}

func bindSoftmax[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	rows, classes := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	return opkit.Loop(b, rows, func(from, till int) {
		kernel.Softmax(opkit.Owned[T](to, from, till, rows), opkit.Owned[T](x, from, till, rows), till-from, classes)
	})
}

func bindSoftmaxGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, dout, dx := b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	rows, classes := opkit.Matrix(y.Dims(), len(y.Dims())-1)
	return opkit.Loop(b, rows, func(from, to int) {
		kernel.SoftmaxGrad(opkit.Owned[T](dx, from, to, rows), opkit.Owned[T](y, from, to, rows), opkit.Owned[T](dout, from, to, rows), to-from, classes)
	})
}
