package optim

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// number declares a FLOAT attribute with a default and the closed range of its values.
func number(name string, value float32, low, high float64, doc string) ops.Attr {
	return ops.Attr{Name: name, Default: value, Doc: doc, Check: inRange(name, low, high)}
}

// fraction declares a FLOAT attribute between 0 and 1, such as a decay rate.
func fraction(name string, value float32, doc string) ops.Attr { return number(name, value, 0, 1, doc) }

// inRange checks a number. Its error is the legal range, which contains neither NaN nor infinities.
func inRange(name string, low, high float64) func(*program.Op) error {
	return func(op *program.Op) error {
		v, ok := op.Float(name)
		if !ok || v >= low && v <= high {
			return nil
		}
		return fmt.Errorf("a number from %v to %v", low, high)
	}
}

// epsilonAttr declares a small number that prevents a division by zero.
func epsilonAttr(value float32) ops.Attr {
	return number("epsilon", value, 0, math.MaxFloat32, "prevents a division by zero")
}

func init() {
	register(rule{
		opType:  "sgd",
		doc:     "Steps against the gradient. ParamOut = Param - LearningRate*Grad.",
		flops:   2,
		float32: sgd[float32],
		float64: sgd[float64],
		lazy:    always,
		steps:   true,
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

var (
	adamMoments = []accumulator{
		{in: "Moment1", out: "Moment1Out", doc: "decaying mean of gradients, at first 0"},
		{in: "Moment2", out: "Moment2Out", doc: "decaying mean of squared gradients, at first 0"},
	}
	adamPowers = []ops.Slot{
		{Name: "Beta1Pow", Doc: "beta1 to the number of this step, one element, at first beta1"},
		{Name: "Beta2Pow", Doc: "beta2 to the number of this step, one element, at first beta2"},
	}
	nextAdamPowers = []power{{"Beta1Pow", "Beta1PowOut", "beta1"}, {"Beta2Pow", "Beta2PowOut", "beta2"}}
)

// momentAttrs are the attributes of all rules with two moments.
func momentAttrs(epsilon float32) []ops.Attr {
	return []ops.Attr{
		fraction("beta1", 0.9, "how much of Moment1 stays"),
		fraction("beta2", 0.999, "how much of Moment2 stays"),
		epsilonAttr(epsilon),
	}
}

// adamAttrs are those of adam.
func adamAttrs(epsilon float32) []ops.Attr {
	return append(momentAttrs(epsilon),
		ops.Attr{Name: "lazy_mode", Default: false, Doc: "with a sparse gradient, change only the rows that it holds, moments included"},
		ops.Attr{Name: "min_row_size_to_use_multithread", Default: int64(1000), Doc: "ignored; in Fluid it affects speed only"})
}

func init() {
	register(rule{
		opType: "adam",
		doc: "Steps along the mean of gradients over the root of the mean of squares. Moment1Out = beta1*Moment1 + (1-beta1)*Grad; " +
			"Moment2Out = beta2*Moment2 + (1-beta2)*Grad^2; ParamOut = Param - LearningRate*sqrt(1-Beta2Pow)/(1-Beta1Pow)*" +
			"Moment1Out/(sqrt(Moment2Out) + epsilon). The powers are multiplied afterwards: by the op, if it names outputs for them, else by scale ops.",
		accumulators: adamMoments,
		numbers:      adamPowers,
		powers:       nextAdamPowers,
		attrs:        adamAttrs(1e-8),
		flops:        12,
		float32:      adam[float32],
		float64:      adam[float64],
		lazy:         "lazy_mode",
	})
	register(rule{
		opType: "adamw",
		doc: "Works as adam and lets parameters decay apart from the gradient (Loshchilov and Hutter 2017): Param is first multiplied by " +
			"1 - LearningRate*lr_ratio*coeff, unless with_decay is false.",
		accumulators: adamMoments,
		numbers:      adamPowers,
		powers:       nextAdamPowers,
		attrs: append(adamAttrs(1e-8),
			number("coeff", 0.01, 0, math.MaxFloat32, "how fast parameters decay"),
			number("lr_ratio", 1, 0, math.MaxFloat32, "multiplies the learning rate"),
			ops.Attr{Name: "with_decay", Default: true, Doc: "whether the parameter decays"}),
		flops:   13,
		float32: adamw[float32],
		float64: adamw[float64],
		lazy:    "lazy_mode",
	})
	register(rule{
		opType: "adamax",
		doc: "Works as adam with the largest gradient in place of the mean of squares. MomentOut = beta1*Moment + (1-beta1)*Grad; " +
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

func adamw[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	step, ratio, decay := adam[T](b), T(b.Float("lr_ratio")), T(0)
	if b.Bool("with_decay") {
		decay = T(b.Float("coeff"))
	}
	return func(o *operands[T]) {
		rate := o.rate
		o.rate *= ratio
		kernel.Scale(o.param, o.param, 1-o.rate*decay, 0, true)
		step(o)
		o.rate = rate
	}
}

func adamax[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	beta1, beta2, epsilon := T(b.Float("beta1")), T(b.Float("beta2")), T(b.Float("epsilon"))
	return func(o *operands[T]) {
		kernel.Adamax(o.param, o.accumulators[0], o.accumulators[1], o.grad, o.rate, beta1, beta2, o.numbers[0], epsilon)
	}
}

func init() {
	register(rule{
		opType: "ftrl",
		doc: "Follows the regularised leader, which sets weak parameters to exactly 0. n = SquaredAccumulator + Grad^2; " +
			"z = LinearAccumulator + Grad - (n^-lr_power - SquaredAccumulator^-lr_power)/LearningRate*Param; " +
			"ParamOut = 0 where |z| <= l1, else (sign(z)*l1 - z)/(n^-lr_power/LearningRate + 2*l2); SquaredAccumOut = n; LinearAccumOut = z. " +
			"A LearningRate of 0 changes nothing; Fluid divides by it, which gives NaN.",
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
