package optim

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	register(rule{
		opType: "adam",
		doc: "Steps along the mean of gradients over the root of the mean of squares. Moment1Out = beta1*Moment1 + (1-beta1)*Grad; " +
			"Moment2Out = beta2*Moment2 + (1-beta2)*Grad^2; ParamOut = Param - LearningRate*sqrt(1-Beta2Pow)/(1-Beta1Pow)*" +
			"Moment1Out/(sqrt(Moment2Out) + epsilon). The powers are multiplied afterwards by scale ops.",
		accumulators: []accumulator{
			{in: "Moment1", out: "Moment1Out", doc: "decaying mean of gradients, at first 0"},
			{in: "Moment2", out: "Moment2Out", doc: "decaying mean of squared gradients, at first 0"},
		},
		numbers: []ops.Slot{
			{Name: "Beta1Pow", Doc: "beta1 to the number of this step, one element, at first beta1"},
			{Name: "Beta2Pow", Doc: "beta2 to the number of this step, one element, at first beta2"},
		},
		attrs: []ops.Attr{
			fraction("beta1", 0.9, "how much of Moment1 stays"),
			fraction("beta2", 0.999, "how much of Moment2 stays"),
			epsilonAttr(1e-8),
			{Name: "lazy_mode", Default: false, Doc: "of a sparse gradient, leaves rows alone that it does not hold, moments too"},
			{Name: "min_row_size_to_use_multithread", Default: int64(1000), Doc: "Fluid's: a matter of speed there, ignored here"},
		},
		flops:   12,
		float32: adam[float32],
		float64: adam[float64],
		lazy:    func(b *ops.Binding) bool { return b.Bool("lazy_mode") },
	})
	register(rule{
		opType: "adamax",
		doc: "Is adam with the largest gradient in place of the mean of squares. MomentOut = beta1*Moment + (1-beta1)*Grad; " +
			"InfNormOut = max(|Grad|, beta2*InfNorm + epsilon); ParamOut = Param - LearningRate/(1-Beta1Pow)*MomentOut/InfNormOut. " +
			"The power is multiplied afterwards by a scale op.",
		accumulators: []accumulator{
			{in: "Moment", out: "MomentOut", doc: "decaying mean of gradients, at first 0"},
			{in: "InfNorm", out: "InfNormOut", doc: "decaying maximum of absolute gradients, at first 0"},
		},
		numbers: []ops.Slot{{Name: "Beta1Pow", Doc: "beta1 to the number of this step, one element, at first beta1"}},
		attrs: []ops.Attr{
			fraction("beta1", 0.9, "how much of Moment stays"),
			fraction("beta2", 0.999, "how much of InfNorm stays"),
			epsilonAttr(1e-8),
		},
		flops:   9,
		float32: adamax[float32],
		float64: adamax[float64],
	})
}

func adam[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	beta1, beta2, epsilon := T(b.Float("beta1")), T(b.Float("beta2")), T(b.Float("epsilon"))
	return func(o *operands[T]) {
		kernel.Adam(o.param, o.accumulators[0], o.accumulators[1], o.grad, o.rate, beta1, beta2, o.numbers[0], o.numbers[1], epsilon)
	}
}

func adamax[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	beta1, beta2, epsilon := T(b.Float("beta1")), T(b.Float("beta2")), T(b.Float("epsilon"))
	return func(o *operands[T]) {
		kernel.Adamax(o.param, o.accumulators[0], o.accumulators[1], o.grad, o.rate, beta1, beta2, o.numbers[0], epsilon)
	}
}
