package optim

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// Some rules need norms of the whole parameter, so a parameter with such a rule stays whole on one server. The rule runs twice over blocks of elements. The
// blocks do not depend on the number of workers, and their sums are added in order, so neither do the bits.

// A prepareWhole reads the attributes once.
type prepareWhole[T tensor.Float] func(*ops.Binding) whole[T]

// A whole is a rule with sums over the whole parameter.
type whole[T tensor.Float] struct {
	sums   func(*operands[T]) (a, b float64)    // updates accumulators of a block; what the block adds to two sums
	number func(o *operands[T], a, b float64) T // of the sums of all blocks
	update func(o *operands[T], number T)       // updates a block
}

// bindWhole binds a rule with sums. A sparse gradient is made dense first, which takes as much memory as the parameter.
func bindWhole[T tensor.Float](r *rule, b *ops.Binding, prepare prepareWhole[T]) (ops.Kernel, error) {
	all, err := collect[T](r, b)
	if err != nil {
		return nil, err
	}
	powers, err := bindPowers[T](r, b)
	if err != nil {
		return nil, err
	}
	var loops []ops.Loop
	n, w, grad := b.In(paramSlot).Len(), prepare(b), b.In(gradSlot)
	if grad.IsSelected() && n > 0 {
		rows := grad
		grad = b.Scratch(tensor.Of[T](), n)
		loop, err := denseGradient[T](b, rows, grad)
		if err != nil {
			return nil, err
		}
		loops = append(loops, loop)
	}
	blocks := (n + blockElements - 1) / blockElements
	partial := b.Scratch(tensor.Float64, 2*blocks)
	parts := make([]operands[T], b.Parts())
	for i := range parts {
		parts[i] = all.operands()
	}
	one := all.operands()
	var number T
	load := func(part, block int) *operands[T] {
		o, from := &parts[part], block*blockElements
		to := min(n, from+blockElements)
		all.load(o, from, to)
		o.grad = tensor.Data[T](grad)[from:to]
		return o
	}
	each := func(run func(o *operands[T], block int)) ops.Loop {
		return ops.Loop{N: blocks, Apart: true, Whole: r.wholeSlots(), Writes: r.stateSlots(), Run: func(part, from, to int) error {
			for block := from; block < to; block++ {
				run(load(part, block), block)
			}
			return nil
		}}
	}
	loops = append(loops,
		each(func(o *operands[T], block int) {
			sums := partial.Float64s()
			sums[2*block], sums[2*block+1] = w.sums(o)
		}),
		ops.Loop{N: 1, Apart: true, Writes: []string{}, Run: func(int, int, int) error {
			all.load(&one, 0, 0)
			var a, c float64
			for i, v := range partial.Float64s() {
				if i%2 == 0 {
					a += v
				} else {
					c += v
				}
			}
			number = w.number(&one, a, c)
			return nil
		}},
		each(func(o *operands[T], _ int) { w.update(o, number) }))
	return b.Loops(append(loops, powers...)...)
}

// denseGradient returns the loop that writes a sparse gradient to a tensor of all rows.
func denseGradient[T tensor.Float](b *ops.Binding, rows, to *tensor.Tensor) (ops.Loop, error) {
	numbers, height := rows.Selected()
	if err := checkOrderable(b, numbers.Len(), height); err != nil {
		return ops.Loop{}, err
	}
	order, spare := b.Scratch(tensor.Int64, numbers.Len()), b.Scratch(tensor.Int64, numbers.Len())
	width := to.Len() / int(height)
	return ops.Loop{N: 1, Apart: true, Reads: []string{gradSlot}, Writes: []string{}, Run: func(int, int, int) error {
		values := tensor.Data[T](to)
		clear(values)
		ordered := kernel.OrderRows(order.Int64s(), spare.Int64s(), tensor.UsedRows(rows), height)
		kernel.AddRowsFrom(values, 0, ordered, len(ordered), tensor.Data[T](rows), width)
		return nil
	}}, nil
}

func init() {
	register(rule{
		opType: "lars_momentum",
		doc: "Steps as momentum with a rate for each parameter, which follows from norms (You, Gitman and Ginsburg 2017). " +
			"rate = LearningRate*lars_coeff*norm(Param)/(norm(Grad) + lars_weight_decay*norm(Param) + epsilon), or LearningRate if the decay or a norm is 0; " +
			"VelocityOut = mu*Velocity + rate*(Grad + lars_weight_decay*Param); ParamOut = Param - VelocityOut.",
		accumulators: []accumulator{{in: "Velocity", out: "VelocityOut", doc: "decaying sum of steps, at first 0"}},
		attrs: []ops.Attr{
			{Name: "mu", Kind: float32(0), Doc: "how much of the velocity stays", Check: inRange("mu", -math.MaxFloat32, math.MaxFloat32)},
			number("lars_coeff", 0.001, 0, math.MaxFloat32, "how far a step goes in relation to the norm of the parameter"),
			number("lars_weight_decay", 0.0005, 0, math.MaxFloat32, "how fast the parameter decays"),
			epsilonAttr(0),
		},
		flops:   10,
		whole32: lars[float32],
		whole64: lars[float64],
	})
	register(rule{
		opType: "lamb",
		doc: "Steps as adam with a rate for each parameter, which follows from norms (You et al. 2019). m = Moment1Out/(1-Beta1Pow); v = Moment2Out/(1-Beta2Pow), with the moments " +
			"of adam; r = m/(sqrt(v) + epsilon) + weight_decay*Param; ParamOut = Param - LearningRate*norm(Param)/norm(r)*r, the quotient of norms being 1 if one of them is 0, and without decay unless always_adapt.",
		accumulators: adamMoments,
		numbers:      adamPowers,
		powers:       nextAdamPowers,
		attrs: append(momentAttrs(1e-6),
			number("weight_decay", 0.01, 0, math.MaxFloat32, "how fast the parameter decays"),
			ops.Attr{Name: "always_adapt", Default: true, Doc: "whether norms count also without decay; false is the value that Paddle writes since 2.4"}),
		flops:   24,
		whole32: lamb[float32],
		whole64: lamb[float64],
	})
	register(rule{
		opType: "dpsgd",
		doc: "Steps against the clipped gradient with noise, for differential privacy (Abadi et al. 2016). " +
			"ParamOut = Param - LearningRate*(Grad/max(1, norm(Grad)/clip) + z/batch_size), with one number z of the normal distribution with deviation sigma for each step. " +
			"z follows from seed, the name of Param and the step; Fluid draws it from a generator with state.",
		attrs: []ops.Attr{
			number("clip", 10, math.SmallestNonzeroFloat32, math.MaxFloat32, "the largest norm of a gradient"),
			number("batch_size", 16, math.SmallestNonzeroFloat32, math.MaxFloat32, "divides the noise"),
			number("sigma", 1, 0, math.MaxFloat32, "deviation of the noise"),
			{Name: "seed", Default: int64(0), Doc: "key of the noise"},
		},
		flops:   6,
		whole32: dpsgd[float32],
		whole64: dpsgd[float64],
	})
}

func lars[T tensor.Float](b *ops.Binding) whole[T] {
	mu, coeff, epsilon := T(b.Float("mu")), T(b.Float("lars_coeff")), T(b.Float("epsilon"))
	decay := T(b.Float("lars_weight_decay"))
	return whole[T]{
		sums: func(o *operands[T]) (float64, float64) { return kernel.SumSquares(o.param), kernel.SumSquares(o.grad) },
		number: func(o *operands[T], param, grad float64) T {
			return kernel.LARSRate(o.rate, coeff, decay, epsilon, param, grad)
		},
		update: func(o *operands[T], rate T) { kernel.LARSMomentum(o.param, o.accumulators[0], o.grad, rate, mu, decay) },
	}
}

func lamb[T tensor.Float](b *ops.Binding) whole[T] {
	beta1, beta2 := T(b.Float("beta1")), T(b.Float("beta2"))
	epsilon, decay := T(b.Float("epsilon")), T(b.Float("weight_decay"))
	adapts := decay > 0 || b.Bool("always_adapt")
	step := func(o *operands[T]) kernel.LAMB[T] {
		return kernel.LAMB[T]{Beta1: beta1, Beta2: beta2, Beta1Pow: o.numbers[0], Beta2Pow: o.numbers[1], Epsilon: epsilon, Decay: decay}
	}
	return whole[T]{
		sums: func(o *operands[T]) (float64, float64) {
			return step(o).Moments(o.param, o.accumulators[0], o.accumulators[1], o.grad)
		},
		number: func(o *operands[T], param, direction float64) T {
			if adapts && param > 0 && direction > 0 {
				return o.rate * T(math.Sqrt(param)) / T(math.Sqrt(direction))
			}
			return o.rate
		},
		update: func(o *operands[T], rate T) { step(o).Step(o.param, o.accumulators[0], o.accumulators[1], rate) },
	}
}

func dpsgd[T tensor.Float](b *ops.Binding) whole[T] {
	clip, batch, sigma := b.Float("clip"), b.Float("batch_size"), b.Float("sigma")
	seed, stream, noise := b.Int("seed"), kernel.StreamOf(b.Op().In(paramSlot)), make([]T, 1)
	var scale T
	return whole[T]{
		sums: func(o *operands[T]) (float64, float64) { return kernel.SumSquares(o.grad), 0 },
		number: func(o *operands[T], grad, _ float64) T {
			scale = T(max(1, math.Sqrt(grad)/clip))
			kernel.GaussianFill(noise, seed, stream, b.Env.Step.Round, 0, sigma)
			return noise[0] / T(batch)
		},
		update: func(o *operands[T], noise T) { kernel.DPSGD(o.param, o.grad, o.rate, scale, noise) },
	}
}
