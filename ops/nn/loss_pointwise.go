package nn

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A pointLoss declares a loss that computes each element from the same element of its inputs (kernel.PointLoss).
type pointLoss struct {
	opType, doc string
	inputs      []ops.Slot // up to three, of one shape and type, in the order of the kernel
	out         string     // output slot of the losses
	kept        string     // output slot of what the kernel keeps; "" for none
	keptDoc     string
	attrs       []ops.Attr
	gradient    string   // formula
	reads       []string // inputs that the gradient reads besides what is kept
	wrt         []string
	flops       int64
	make        func(number func(name string) float64) (kernel.PointLoss, kernel.PointSlope)
}

func (p *pointLoss) register() {
	def := ops.Def{
		Type: p.opType, Doc: p.doc, Inputs: p.inputs, Attrs: p.attrs,
		Outputs: []ops.Slot{{Name: p.out, Doc: "of the shape and type of " + p.inputs[0].Name}},
		Infer:   p.infer,
		Cost:    opkit.PerElement(p.flops),
		Bind:    opkit.BindFloats(p.inputs[0].Name, bindPointLoss[float32](p), bindPointLoss[float64](p)),
	}
	gradient := opkit.Gradient{
		Doc: p.gradient, Inputs: p.reads, Wrt: p.wrt,
		Cost: opkit.PerElement(p.flops),
		Bind: opkit.BindFloats(program.GradName(p.out), bindPointLossGrad[float32](p), bindPointLossGrad[float64](p)),
	}
	gradient.StandIn = map[string]string{}
	for _, s := range p.inputs {
		gradient.StandIn[s.Name] = program.GradName(p.out)
	}
	for _, s := range p.reads {
		delete(gradient.StandIn, s)
	}
	if p.kept != "" {
		def.Outputs = append(def.Outputs, ops.Slot{Name: p.kept, Doc: p.keptDoc, Intermediate: true})
		gradient.Outputs = []string{p.kept}
	}
	opkit.Register(def, gradient)
}

func (p *pointLoss) infer(s *ops.Shapes) error {
	var slots []string
	for _, in := range p.inputs {
		slots = append(slots, in.Name)
	}
	if err := s.IsFloat(slots[0]); err != nil {
		return err
	}
	if err := opkit.SameShape(s, slots...); err != nil {
		return err
	}
	s.Like(p.out, slots[0])
	if p.kept != "" {
		s.Like(p.kept, slots[0])
	}
	return nil
}

func bindPointLoss[T tensor.Float](p *pointLoss) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		loss, _ := p.make(b.Float)
		n, in, out, kept := b.In(p.inputs[0].Name).Len(), p.tensors(b.In), b.Out(p.out), b.Out(p.kept)
		return opkit.Loop(b, n, func(from, to int) {
			kernel.PointLosses(opkit.Owned[T](out, from, to, n), opkit.Owned[T](kept, from, to, n), ownedPoints[T](in, from, to, n), to-from, loss)
		})
	}
}

func bindPointLossGrad[T tensor.Float](p *pointLoss) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		_, slope := p.make(b.Float)
		in, kept, dout := p.tensors(b.In), b.In(p.kept), b.In(program.GradName(p.out))
		grads := p.tensors(func(slot string) *tensor.Tensor { return b.Out(program.GradName(slot)) })
		n := dout.Len()
		return opkit.Loop(b, n, func(from, to int) {
			kernel.PointLossesGrad(ownedPoints[T](grads, from, to, n), ownedPoints[T](in, from, to, n), opkit.Owned[T](kept, from, to, n),
				tensor.Data[T](dout)[from:to], slope)
		})
	}
}

// tensors finds the tensor of each input slot, or what belongs to it.
func (p *pointLoss) tensors(find func(slot string) *tensor.Tensor) (found [3]*tensor.Tensor) {
	for i, s := range p.inputs {
		found[i] = find(s.Name)
	}
	return found
}

func ownedPoints[T tensor.Float](of [3]*tensor.Tensor, from, to, n int) (at [3][]T) {
	for i, t := range of {
		at[i] = opkit.Owned[T](t, from, to, n)
	}
	return at
}

// atLeastZero checks a FLOAT attribute that is finite and not negative.
func atLeastZero(name string) func(*program.Op) error { return numberFrom(name, 0) }

// numberFrom checks a FLOAT attribute that is finite and at least low.
func numberFrom(name string, low float64) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, ok := op.Float(name); ok && !(v >= low && v <= math.MaxFloat32) {
			return fault.New(fault.InvalidArgument, fmt.Sprintf("a finite number, at least %v", low))
		}
		return nil
	}
}

func init() {
	for _, p := range []pointLoss{
		{
			opType: "huber_loss",
			doc: "The loss of Huber, which is square for small residuals and linear for large ones: with r = Y - X, Out = r*r/2 where |r| <= delta, else " +
				"delta*(|r| - delta/2).",
			inputs: []ops.Slot{{Name: "X", Doc: "float, predictions"}, {Name: "Y", Doc: "labels, of the shape and type of X"}},
			out:    "Out", kept: "Residual", keptDoc: "Y - X",
			attrs:    []ops.Attr{{Name: "delta", Doc: "where the loss becomes linear, at least 0", Kind: float32(0), Check: atLeastZero("delta")}},
			gradient: "dY = dOut*(Residual limited to [-delta, delta]), dX = -dY.", wrt: []string{"X", "Y"}, flops: 5,
			make: func(n func(string) float64) (kernel.PointLoss, kernel.PointSlope) {
				return kernel.HuberLoss(n("delta"))
			},
		},
		{
			opType: "modified_huber_loss",
			doc:    "A smooth hinge for two classes: with v = X*(2*Y - 1), Out = -4*v where v < -1, (1 - v)*(1 - v) from there to 1, and 0 beyond.",
			inputs: []ops.Slot{{Name: "X", Doc: "float, scores"}, {Name: "Y", Doc: "0 or 1, of the shape and type of X"}},
			out:    "Out", kept: "IntermediateVal", keptDoc: "X*(2*Y - 1)",
			gradient: "dX = dOut*(2*Y - 1)*(-4 where v < -1, -2*(1 - v) up to 1, 0 beyond), v being IntermediateVal.", reads: []string{"Y"},
			wrt: []string{"X"}, flops: 5,
			make: func(func(string) float64) (kernel.PointLoss, kernel.PointSlope) { return kernel.ModifiedHuberLoss() },
		},
		{
			opType:   "hinge_loss",
			doc:      "The hinge loss of two classes: Loss = max(0, 1 - Logits*(2*Labels - 1)).",
			inputs:   []ops.Slot{{Name: "Logits", Doc: "float, scores"}, {Name: "Labels", Doc: "0 or 1, of the shape and type of Logits"}},
			out:      "Loss",
			gradient: "dLogits = -dLoss*(2*Labels - 1) where the loss is above 0, else 0.", reads: []string{"Logits", "Labels"},
			wrt: []string{"Logits"}, flops: 4,
			make: func(func(string) float64) (kernel.PointLoss, kernel.PointSlope) { return kernel.HingeLoss() },
		},
		{
			opType: "rank_loss",
			doc:    "The cross entropy of the order of two examples (RankNet, Burges et al. 2005): Out = log(1 + exp(Left - Right)) - Label*(Left - Right).",
			inputs: []ops.Slot{{Name: "Label", Doc: "float, 1 if the left one ranks higher, 0 if the right one, 0.5 if neither"},
				{Name: "Left", Doc: "scores, of the shape and type of Label"}, {Name: "Right", Doc: "likewise"}},
			out:      "Out",
			gradient: "dLeft = dOut*(sigmoid(Left - Right) - Label), dRight = -dLeft, dLabel = -dOut*(Left - Right).", reads: []string{"Label", "Left", "Right"},
			wrt: []string{"Label", "Left", "Right"}, flops: 16,
			make: func(func(string) float64) (kernel.PointLoss, kernel.PointSlope) { return kernel.RankLoss() },
		},
		{
			opType: "margin_rank_loss",
			doc:    "The hinge loss of the order of two examples: Out = max(0, margin - Label*(X1 - X2)).",
			inputs: []ops.Slot{{Name: "Label", Doc: "float, 1 if the first one ranks higher, -1 if the second"},
				{Name: "X1", Doc: "scores, of the shape and type of Label"}, {Name: "X2", Doc: "likewise"}},
			out: "Out", kept: "Activated", keptDoc: "1 where Out is above 0, else 0",
			attrs:    []ops.Attr{{Name: "margin", Doc: "by how much scores are to differ", Default: float32(0)}},
			gradient: "dX1 = -dOut*Label*Activated, dX2 = -dX1.", reads: []string{"Label"},
			wrt: []string{"X1", "X2"}, flops: 4,
			make: func(n func(string) float64) (kernel.PointLoss, kernel.PointSlope) {
				return kernel.MarginRankLoss(n("margin"))
			},
		},
		{
			opType: "teacher_student_sigmoid_loss",
			doc: "The cross entropy of a logit with a click and, for examples that have one, with the score q of a teacher model. Label says both: -2 no click, " +
				"-1 a click, q in [0, 1) no click, 1 + q a click. With c = 1 for a click, else 0: Y = log(1 + exp(X)) - c*X, plus log(1 + exp(X)) - q*X.",
			inputs: []ops.Slot{{Name: "X", Doc: "float, logits"}, {Name: "Label", Doc: "of the shape and type of X"}},
			out:    "Y",
			attrs: []ops.Attr{{Name: "soft_max_up_bound", Doc: "no gradient from logits that reach it", Default: float32(15)},
				{Name: "soft_max_lower_bound", Doc: "likewise below", Default: float32(-15)}},
			gradient: "dX = dY*(sigmoid(X) - c), plus dY*(sigmoid(X) - q); 0 where X is not between the bounds.", reads: []string{"X", "Label"},
			wrt: []string{"X"}, flops: 20,
			make: func(n func(string) float64) (kernel.PointLoss, kernel.PointSlope) {
				return kernel.TeacherStudentLoss(n("soft_max_lower_bound"), n("soft_max_up_bound"))
			},
		},
		{
			opType:   "bce_loss",
			doc:      "The cross entropy of the probability of one of two classes: Out = -Label*log(X) - (1 - Label)*log(1 - X), logarithms not below -100.",
			inputs:   []ops.Slot{{Name: "X", Doc: "float probabilities"}, {Name: "Label", Doc: "from 0 to 1, of the shape and type of X"}},
			out:      "Out",
			gradient: "dX = dOut*(X - Label)/max(X*(1 - X), 1e-12).", reads: []string{"X", "Label"},
			wrt: []string{"X"}, flops: 20,
			make: func(func(string) float64) (kernel.PointLoss, kernel.PointSlope) { return kernel.BinaryCrossEntropy() },
		},
	} {
		p.register()
	}
}
