package optim

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	register(rule{
		opType:   "sgd",
		doc:      "Steps against the gradient. ParamOut = Param - LearningRate*Grad. Of a sparse gradient, rows that repeat are applied in turn.",
		flops:    2,
		float32:  sgd[float32],
		float64:  sgd[float64],
		rowByRow: true,
	})
	register(rule{
		opType: "momentum",
		doc: "Steps against a decaying sum of gradients. VelocityOut = mu*Velocity + Grad; ParamOut = Param - LearningRate*VelocityOut, " +
			"or with use_nesterov Param - LearningRate*(Grad + mu*VelocityOut).",
		accumulators: []accumulator{{in: "Velocity", out: "VelocityOut", doc: "decaying sum of gradients, at first 0"}},
		attrs: []ops.Attr{
			{Name: "mu", Kind: float32(0), Doc: "how much of the velocity stays", Check: inRange("mu", -math.MaxFloat32, math.MaxFloat32)},
			{Name: "use_nesterov", Default: false, Doc: "look ahead along the velocity"},
		},
		flops:   4,
		float32: momentum[float32],
		float64: momentum[float64],
	})
}

func sgd[T tensor.Float](*ops.Binding) func(*operands[T]) {
	return func(o *operands[T]) { kernel.SGD(o.param, o.grad, o.rate) }
}

func momentum[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	mu, nesterov := T(b.Float("mu")), b.Bool("use_nesterov")
	return func(o *operands[T]) {
		kernel.Momentum(o.param, o.accumulators[0], o.grad, o.rate, mu, nesterov)
	}
}
