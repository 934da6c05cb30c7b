package optim

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	register(rule{
		opType: "ftrl",
		doc: "Follows the regularised leader, which sets weak parameters to exactly 0. n = SquaredAccumulator + Grad^2; " +
			"z = LinearAccumulator + Grad - (n^-lr_power - SquaredAccumulator^-lr_power)/LearningRate*Param; " +
			"ParamOut = 0 where |z| <= l1, else (sign(z)*l1 - z)/(n^-lr_power/LearningRate + 2*l2); SquaredAccumOut = n; LinearAccumOut = z. " +
			"A LearningRate of 0 changes nothing, as does the limit of ever smaller rates; Fluid divides by it, which gives NaN.",
		accumulators: []accumulator{
			{in: "SquaredAccumulator", out: "SquaredAccumOut", doc: "sum of squared gradients, at first 0"},
			{in: "LinearAccumulator", out: "LinearAccumOut", doc: "the linear term, at first 0"},
		},
		attrs: []ops.Attr{
			number("l1", 0, 0, math.MaxFloat32, "weight of the sum of absolute values"),
			number("l2", 0, 0, math.MaxFloat32, "weight of the sum of squares"),
			number("lr_power", -0.5, -math.MaxFloat32, math.MaxFloat32, "minus the power of the squared sum that divides the rate"),
		},
		flops:   16,
		float32: ftrl[float32],
		float64: ftrl[float64],
	})
}

func ftrl[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	l1, l2, power := T(b.Float("l1")), T(b.Float("l2")), T(b.Float("lr_power"))
	return func(o *operands[T]) {
		kernel.FTRL(o.param, o.accumulators[0], o.accumulators[1], o.grad, o.rate, l1, l2, power)
	}
}
