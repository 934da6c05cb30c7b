package optim

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	register(rule{
		opType: "adadelta",
		doc: "Steps in the units of earlier steps, without a learning rate. AvgSquaredGradOut = rho*AvgSquaredGrad + (1-rho)*Grad^2; " +
			"d = -sqrt((AvgSquaredUpdate + epsilon)/(AvgSquaredGradOut + epsilon))*Grad; " +
			"AvgSquaredUpdateOut = rho*AvgSquaredUpdate + (1-rho)*d^2; ParamOut = Param + d.",
		noRate: true,
		accumulators: []accumulator{
			{in: "AvgSquaredGrad", out: "AvgSquaredGradOut", doc: "decaying mean of squared gradients, at first 0"},
			{in: "AvgSquaredUpdate", out: "AvgSquaredUpdateOut", doc: "decaying mean of squared steps, at first 0"},
		},
		attrs:   []ops.Attr{fraction("rho", 0.95, "how much of the means stays"), epsilonAttr(1e-6)},
		flops:   14,
		float32: adadelta[float32],
		float64: adadelta[float64],
	})
}

func adadelta[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	rho, epsilon := T(b.Float("rho")), T(b.Float("epsilon"))
	return func(o *operands[T]) {
		kernel.Adadelta(o.param, o.accumulators[0], o.accumulators[1], o.grad, rho, epsilon)
	}
}
