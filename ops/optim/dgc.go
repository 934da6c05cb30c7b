package optim

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Deep gradient compression (Lin et al. 2018) moves only the elements of a parameter whose summed gradients are largest. In Fluid each trainer chooses them from its own
// gradients, and sends no others. Here the update has the gradient of the whole batch, and chooses once, where the parameter is. So a cluster computes what one machine
// computes. What travels is another matter (internal/compress).

// currentStep and ranks are slots of Fluid's ops of deep gradient compression.
var (
	currentStep = ops.Slot{Name: "current_step", Doc: "number of the step, one element"}
	ranks       = ops.Slot{Name: "nranks", Doc: "not read: the gradient is that of all trainers", Dispensable: true}
)

// mostLevels bounds the levels of sparsity, each of which has memory of its own.
const mostLevels = 64

func init() {
	register(rule{
		opType: "dgc_momentum",
		doc: "Steps as momentum before step rampup_begin_step, and as sgd from then on, when dgc has the momentum. With rampup_begin_step below 0 it does nothing. " +
			"Grad is not divided by nranks, as in Fluid, because it is not multiplied by it before.",
		accumulators: []accumulator{{in: "Velocity", out: "VelocityOut", doc: "decaying sum of gradients, at first 0"}},
		numbers:      []ops.Slot{currentStep},
		unread:       []ops.Slot{ranks},
		repeats:      "Grad_out",
		attrs: []ops.Attr{
			{Name: "mu", Kind: float32(0), Doc: "how much of the velocity stays", Check: inRange("mu", -math.MaxFloat32, math.MaxFloat32)},
			{Name: "use_nesterov", Default: false, Doc: "look ahead along the velocity"},
			number("rampup_begin_step", -1, -math.MaxInt32, math.MaxInt32, "the first step that dgc compresses"),
		},
		flops:   4,
		float32: dgcMomentum[float32],
		float64: dgcMomentum[float64],
	})

	ops.Register(ops.Def{
		Type:  "dgc",
		Class: ops.Optimize,
		Doc: "Chooses the elements of a gradient that count (Lin et al. 2018): from step rampup_begin_step on U_out = m*U + G and V_out = V + U_out, or with use_nesterov m*(U + G) and " +
			"V + U_out + Grad, where G is Grad with the penalty. Grad_out has the k elements of V_out of largest magnitude, of equal ones those that come first, and 0 elsewhere; " +
			"U_out and V_out become 0 there. k is the share 1 - s of all elements, at least 1; s is the number of sparsity that rampup_step steps have reached. Before, Grad_out is G. " +
			"Fluid chooses on each trainer, and about k elements by a sample.",
		Inputs: []ops.Slot{
			{Name: "U", Doc: "float32, decaying sum of gradients, at first 0"},
			{Name: "V", Doc: "float32, what has not been chosen yet, at first 0"},
			{Name: gradSlot, Doc: "float32, the gradient"},
			{Name: paramSlot, Doc: "float32, the parameter, for the penalty"},
			currentStep, ranks},
		Outputs: []ops.Slot{
			{Name: "U_out", Doc: "the variable of U"},
			{Name: "V_out", Doc: "the variable of V"},
			{Name: "EncodeGrad", Doc: "[1], not used: here the elements do not travel", Dispensable: true},
			{Name: "Grad_out", Doc: "the elements that count, of the dims of Grad"},
			{Name: "k", Doc: "[1]: how many elements count, 0 before rampup_begin_step", Dispensable: true},
			{Name: "GatherBuff", Doc: "[1], not used", Dispensable: true}},
		Attrs: []ops.Attr{
			number("m", 0.9, -math.MaxFloat32, math.MaxFloat32, "how much of U stays"),
			{Name: "use_nesterov", Default: true, Doc: "look ahead along U"},
			{Name: "sparsity", Default: []float32{}, Doc: "shares of the elements that do not count, one after another; none is 0.999", Check: checkSparsity},
			number("rampup_begin_step", 0, -math.MaxInt32, math.MaxInt32, "the first step that chooses"),
			number("rampup_step", 0, -math.MaxInt32, math.MaxInt32, "steps that all of sparsity but the last take together; 0 for none"),
			number("regular_coeff", 0, -math.MaxFloat32, math.MaxFloat32, "coefficient of the penalty"),
			{Name: "regular_type", Default: int32(0), Doc: "0: no penalty; 1: G = Grad + regular_coeff*sign(Param); 2: G = Grad + regular_coeff*Param", Check: func(op *program.Op) error {
				if v, ok := op.Int("regular_type"); ok && (v < 0 || v > 2) {
					return errors.New("0, 1 or 2")
				}
				return nil
			}}},
		Infer:   inferDGC,
		Cost:    opkit.PerElement(8),
		Bind:    bindDGC,
		InPlace: map[string]string{"U_out": "U", "V_out": "V", "Grad_out": gradSlot},
	})
}

func checkSparsity(op *program.Op) error {
	list, _ := op.Floats("sparsity")
	for _, v := range list {
		if !(v >= 0 && v < 1) {
			return errors.New("numbers from 0 to less than 1")
		}
	}
	if len(list) > mostLevels {
		return fmt.Errorf("at most %d numbers", mostLevels)
	}
	return nil
}

func dgcMomentum[T tensor.Float](b *ops.Binding) func(*operands[T]) {
	step, begin := momentum[T](b), int(b.Float("rampup_begin_step"))
	return func(o *operands[T]) {
		switch {
		case begin < 0:
		case float64(o.numbers[0]) < float64(begin):
			step(o)
		default:
			kernel.SGD(o.param, o.grad, o.rate)
		}
	}
}

func inferDGC(s *ops.Shapes) error {
	grad := s.In(gradSlot)
	for _, slot := range []string{"U", "V", gradSlot, paramSlot} {
		if err := opkit.CheckType(s, slot, s.In(slot).Kind == program.LoDTensor && s.In(slot).DType == tensor.Float32, "a dense float32 tensor"); err != nil {
			return err
		}
		if !ops.Compatible(s.In(slot).Dims, grad.Dims) {
			return s.Errorf(slot, "%v, the dims of Grad", grad.Dims)
		}
	}
	if ops.Product(grad.Dims) > compress.MaxSelected {
		return s.Errorf(gradSlot, "at most %d elements", compress.MaxSelected)
	}
	if m := s.In(currentStep.Name); m.DType != tensor.Float32 || !ops.Compatible(m.Dims, []int64{1}) {
		return s.Errorf(currentStep.Name, "one float32")
	}
	s.Like("U_out", "U")
	s.Like("V_out", "V")
	s.Like("Grad_out", gradSlot)
	for _, slot := range []string{"EncodeGrad", "k", "GatherBuff"} {
		s.Set(slot, tensor.Float32, 1)
	}
	return nil
}

// A chooser is a bound dgc.
type chooser struct {
	u, v, grad, param, step *tensor.Tensor
	nextU, nextV, out       *tensor.Tensor
	k                       *tensor.Tensor   // may be nil
	unused                  []*tensor.Tensor // may be nil
	term                    *tensor.Tensor   // what V gets

	m, coeff    float32
	begin, ramp float64
	nesterov    bool
	penalty     int64
	levels      []level
}

// A level chooses as many elements as one number of sparsity says.
type level struct {
	selector      *compress.Selector
	indices, bits []int32
}

func bindDGC(b *ops.Binding) (ops.Kernel, error) {
	c := &chooser{u: b.In("U"), v: b.In("V"), grad: b.In(gradSlot), param: b.In(paramSlot), step: b.In(currentStep.Name),
		nextU: b.Out("U_out"), nextV: b.Out("V_out"), out: b.Out("Grad_out"), k: b.Out("k"), unused: []*tensor.Tensor{b.Out("EncodeGrad"), b.Out("GatherBuff")},
		m: float32(b.Float("m")), coeff: float32(b.Float("regular_coeff")), begin: math.Trunc(b.Float("rampup_begin_step")), ramp: b.Float("rampup_step"),
		nesterov: b.Bool("use_nesterov"), penalty: b.Int("regular_type")}
	if c.param == nil || c.step == nil || c.step.DType() != tensor.Float32 || c.step.Len() != 1 {
		return nil, missing(currentStep.Name)
	}
	for slot, t := range map[string]*tensor.Tensor{"U": c.u, "V": c.v, gradSlot: c.grad, "U_out": c.nextU, "V_out": c.nextV, "Grad_out": c.out} {
		if err := like(slot, t, tensor.Float32, c.param); err != nil {
			return nil, err
		}
	}
	sparsity, _ := b.Op().Floats("sparsity")
	if len(sparsity) == 0 {
		sparsity = []float64{float64(float32(0.999))}
	}
	n := c.param.Len()
	for _, s := range sparsity {
		chosen := min(n, max(1, int(float64(n)*(1-s))))
		c.levels = append(c.levels, level{compress.NewSelector(n, chosen), make([]int32, chosen), make([]int32, chosen)})
	}
	c.term = b.Scratch(tensor.Float32, n)
	return c.run, nil
}

func (c *chooser) run(context.Context) error {
	for _, t := range c.unused {
		if t != nil {
			clear(t.Float32s())
		}
	}
	term, out, u, v := c.term.Float32s(), c.out.Float32s(), c.nextU.Float32s(), c.nextV.Float32s()
	copy(term, c.grad.Float32s()) // which may be out
	copy(out, term)
	copy(u, c.u.Float32s())
	copy(v, c.v.Float32s())
	c.penalize(out, c.param.Float32s())
	step, chosen := math.Trunc(float64(c.step.Float32s()[0])), 0
	if !(step < c.begin) {
		l := &c.levels[c.level(step-c.begin)]
		chosen = len(l.indices)
		if c.nesterov {
			kernel.Axpy(u, out, 1)
			kernel.Scale(u, u, c.m, 0, true)
			kernel.Axpy(term, u, 1)
		} else {
			kernel.Scale(u, u, c.m, 0, true)
			kernel.Axpy(u, out, 1)
			copy(term, u)
		}
		l.selector.Select(l.indices, l.bits, v, term)
		clear(out)
		if len(out) > 0 {
			for i, at := range l.indices {
				out[at], u[at] = math.Float32frombits(uint32(l.bits[i])), 0
			}
		}
	}
	if c.k != nil {
		c.k.Float32s()[0] = float32(chosen)
	}
	return nil
}

// penalize adds the penalty to a gradient.
func (c *chooser) penalize(grad, param []float32) {
	switch c.penalty {
	case 1:
		for i, p := range param {
			switch {
			case p > 0:
				grad[i] += c.coeff
			case p < 0:
				grad[i] -= c.coeff
			}
		}
	case 2:
		kernel.Axpy(grad, param, c.coeff)
	}
}

// level returns which number of sparsity counts, so many steps after the first.
func (c *chooser) level(steps float64) int {
	last := len(c.levels) - 1
	at := steps * float64(len(c.levels)) / c.ramp
	if c.ramp <= 0 || !(at < float64(last)) {
		return last
	}
	return int(at)
}
