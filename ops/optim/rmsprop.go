package optim

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	register(rule{
		opType: "rmsprop",
		doc: "Divides the step by the root of a decaying mean of squared gradients, with momentum. " +
			"MeanSquareOut = decay*MeanSquare + (1-decay)*Grad^2; MomentOut = momentum*Moment + LearningRate*Grad/sqrt(MeanSquareOut + epsilon); " +
			"ParamOut = Param - MomentOut. With centered, MeanGradOut = decay*MeanGrad + (1-decay)*Grad and MeanGradOut^2 is subtracted below the root.",
		accumulators: []accumulator{
			{in: "MeanSquare", out: "MeanSquareOut", doc: "decaying mean of squared gradients, at first 0"},
			{in: "Moment", out: "MomentOut", doc: "decaying sum of steps, at first 0"},
			{in: "MeanGrad", out: "MeanGradOut", doc: "decaying mean of gradients, at first 0", onlyWith: "centered"},
		},
		attrs: []ops.Attr{
			epsilonAttr(1e-10),
			fraction("decay", 0.9, "how much of the means stays"),
			fraction("momentum", 0, "how much of Moment stays"),
			{Name: "centered", Default: false, Doc: "divide by the root of the variance instead of the mean square"},
		},
		flops:   11,
		float32: rmsprop[float32],
		float64: rmsprop[float64],
	})
}

func rmsprop[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	decay, epsilon, momentum := T(b.Float("decay")), T(b.Float("epsilon")), T(b.Float("momentum"))
	if b.Bool("centered") {
		return func(o *operands[T]) {
			kernel.RMSPropCentered(o.param, o.accumulators[0], o.accumulators[2], o.accumulators[1], o.grad, o.rate, decay, epsilon, momentum)
		}
	}
	return func(o *operands[T]) {
		kernel.RMSProp(o.param, o.accumulators[0], o.accumulators[1], o.grad, o.rate, decay, epsilon, momentum)
	}
}
