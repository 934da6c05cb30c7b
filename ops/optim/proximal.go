package optim

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// Proximal rules step against the gradient and then solve exactly for the penalties l1 and l2, which sets weak parameters to exactly 0.

func init() {
	const shrink = "ParamOut = sign(p)*max(|p| - LearningRate*l1, 0)/(1 + LearningRate*l2)."
	penalties := []ops.Attr{
		number("l1", 0, 0, math.MaxFloat32, "weight of the sum of absolute values"),
		number("l2", 0, 0, math.MaxFloat32, "weight of half the sum of squares"),
	}
	register(rule{
		opType:  "proximal_gd",
		doc:     "Steps against the gradient and shrinks the parameter (Duchi and Singer 2009). p = Param - LearningRate*Grad; " + shrink,
		attrs:   penalties,
		flops:   7,
		float32: proximalGD[float32],
		float64: proximalGD[float64],
	})
	register(rule{
		opType: "proximal_adagrad",
		doc: "Steps as adagrad and shrinks the parameter. MomentOut = Moment + Grad^2; p = Param - LearningRate*Grad/sqrt(MomentOut), Param where Grad is 0; " +
			shrink + " Where Grad and MomentOut are 0, Fluid computes NaN.",
		accumulators: []accumulator{{in: "Moment", out: "MomentOut", doc: "sum of squared gradients, at first 0"}},
		attrs:        penalties,
		flops:        11,
		float32:      proximalAdagrad[float32],
		float64:      proximalAdagrad[float64],
	})
}

func proximalGD[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	l1, l2 := T(b.Float("l1")), T(b.Float("l2"))
	return func(o *operands[T]) { kernel.ProximalGD(o.param, o.grad, o.rate, l1, l2) }
}

func proximalAdagrad[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	l1, l2 := T(b.Float("l1")), T(b.Float("l2"))
	return func(o *operands[T]) { kernel.ProximalAdagrad(o.param, o.accumulators[0], o.grad, o.rate, l1, l2) }
}
