package optim

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	register(rule{
		opType: "adagrad",
		doc: "Divides the step by the root of the sum of squared gradients. MomentOut = Moment + Grad^2; " +
			"ParamOut = Param - LearningRate*Grad/(sqrt(MomentOut) + epsilon).",
		accumulators: []accumulator{{in: "Moment", out: "MomentOut", doc: "sum of squared gradients, at first 0"}},
		attrs:        []ops.Attr{epsilonAttr(1e-6)},
		flops:        7,
		float32:      adagrad[float32],
		float64:      adagrad[float64],
		lazy:         always,
	})
	register(rule{
		opType: "decayed_adagrad",
		doc: "Divides the step by the root of a decaying mean of squared gradients. MomentOut = decay*Moment + (1-decay)*Grad^2; " +
			"ParamOut = Param - LearningRate*Grad/(sqrt(MomentOut) + epsilon).",
		accumulators: []accumulator{{in: "Moment", out: "MomentOut", doc: "decaying mean of squared gradients, at first 0"}},
		attrs:        []ops.Attr{fraction("decay", 0.95, "how much of the mean stays"), epsilonAttr(1e-6)},
		flops:        9,
		float32:      decayedAdagrad[float32],
		float64:      decayedAdagrad[float64],
	})
}

func adagrad[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	epsilon := T(b.Float("epsilon"))
	return func(o *operands[T]) { kernel.Adagrad(o.param, o.accumulators[0], o.grad, o.rate, epsilon) }
}

func decayedAdagrad[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	decay, epsilon := T(b.Float("decay")), T(b.Float("epsilon"))
	return func(o *operands[T]) {
		kernel.DecayedAdagrad(o.param, o.accumulators[0], o.grad, o.rate, decay, epsilon)
	}
}
