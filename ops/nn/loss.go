package nn

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// labelAttrs are the attributes of the losses that compare probabilities with labels.
var labelAttrs = []ops.Attr{
	{Name: "soft_label", Doc: "whether Label is a distribution over the classes and not the number of a class", Default: false},
	{Name: "ignore_index", Doc: "label of rows that do not count", Default: int32(-100)}}

// inferLoss checks probabilities or logits in slot x against Label, and gives the slot loss one number for each row.
func inferLoss(s *ops.Shapes, x, loss string) error {
	m := s.In(x)
	if len(m.Dims) == 0 {
		return s.Errorf(x, "rank 1 or more")
	}
	if err := s.IsFloat(x); err != nil {
		return err
	}
	if s.Bool("soft_label") {
		if err := opkit.SameShape(s, x, "Label"); err != nil {
			return err
		}
	} else {
		if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
			return err
		}
		if err := checkLabelDims(s, "Label", x); err != nil {
			return err
		}
	}
	m.Dims = append([]int64(nil), m.Dims...)
	m.Dims[len(m.Dims)-1] = 1
	s.SetAt(loss, 0, m)
	return nil
}

// byLabel makes the loop of a loss over rows of classes. soft computes rows [from, to) if labels are distributions. hard computes them if a label
// is the number of a class; it gets labels that were checked.
func byLabel[T tensor.Float](b *ops.Binding, rows, classes int, soft func(from, to int, labels []T),
	hard func(from, to int, labels []int64, ignored int64)) (ops.Kernel, error) {
	op, label, distributions, ignored := b.Op(), b.In("Label"), b.Bool("soft_label"), b.Int("ignore_index")
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		if distributions {
			soft(from, to, opkit.Owned[T](label, from, to, rows))
			return nil
		}
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		hard(from, to, labels, ignored)
		return nil
	}})
}

// checkLabels reports the first label that is no class. labels[0] belongs to row first.
func checkLabels(op *program.Op, labels []int64, first, classes int, ignored int64) error {
	row := kernel.FirstBadLabel(labels, int64(classes), ignored)
	if row < 0 {
		return nil
	}
	label := labels[row]
	row += first
	return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Label")),
		fault.Gotf("label %d in row %d", label, row), fault.Wantf("0 to %d, or %d to ignore the row", classes-1, ignored))
}

// checkLabelDims checks that a slot holds one label for each row of another slot: dims [..., 1] where the other has [..., n].
func checkLabelDims(s *ops.Shapes, slot, of string) error {
	d, x := s.In(slot).Dims, s.In(of).Dims
	last := len(x) - 1
	if last < 0 || len(d) != len(x) || !ops.Compatible(d[:last], x[:last]) || !opkit.Agree(d[last], 1) {
		return s.Errorf(slot, "the dims of %s %v with a last extent of 1", of, x)
	}
	return nil
}

func init() {
	opkit.Register(ops.Def{
		Type: "cross_entropy",
		Doc: "The cross entropy of probabilities and labels: Y = -log(X[Label]) for each row, or -sum(Label*log(X)) with " +
			"soft_label. A probability of 0 costs 1e20.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float probabilities, the classes on the last axis"},
			{Name: "Label", Doc: "int64 with a last extent of 1, or with soft_label of the shape and type of X"}},
		Outputs: []ops.Slot{{Name: "Y", Doc: "dims of X with a last extent of 1"}},
		Attrs:   labelAttrs,
		Infer:   func(s *ops.Shapes) error { return inferLoss(s, "X", "Y") },
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("X", bindCrossEntropy[float32], bindCrossEntropy[float64]),
	}, opkit.Gradient{
		Doc:    "dX[Label] = -dY/X[Label] and 0 for the other classes; with soft_label dX = -dY*Label/X.",
		Inputs: []string{"X", "Label"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(2),
		Bind:   opkit.BindFloats("X", bindCrossEntropyGrad[float32], bindCrossEntropyGrad[float64]),
	})
}

func bindCrossEntropy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y := b.In("X"), b.Out("Y")
	rows, classes := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	return byLabel(b, rows, classes, func(from, to int, labels []T) {
		kernel.CrossEntropySoft(tensor.Data[T](y)[from:to], opkit.Owned[T](x, from, to, rows), labels, to-from, classes)
	}, func(from, to int, labels []int64, ignored int64) {
		kernel.CrossEntropy(tensor.Data[T](y)[from:to], opkit.Owned[T](x, from, to, rows), labels, to-from, classes, ignored)
	})
}

func bindCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dy, dx := b.In("X"), b.In("Y@GRAD"), b.Out("X@GRAD")
	rows, classes := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	return byLabel(b, rows, classes, func(from, to int, labels []T) {
		probabilities, dcost := opkit.Owned[T](x, from, to, rows), tensor.Data[T](dy)[from:to]
		kernel.CrossEntropySoftGrad(opkit.Owned[T](dx, from, to, rows), probabilities, labels, dcost, to-from, classes)
	}, func(from, to int, labels []int64, ignored int64) {
		probabilities, dcost := opkit.Owned[T](x, from, to, rows), tensor.Data[T](dy)[from:to]
		kernel.CrossEntropyGrad(opkit.Owned[T](dx, from, to, rows), probabilities, labels, dcost, to-from, classes, ignored)
	})
}

func init() {
	opkit.Register(ops.Def{
		Type: "softmax_with_cross_entropy",
		Doc: "The cross entropy of labels and the softmax of logits, computed together so that no probability is rounded " +
			"before its logarithm is taken: Loss = log(sum(exp(Logits))) - Logits[Label] for each row. With use_softmax false " +
			"Logits are probabilities already, Softmax is a copy of them, and Loss is that of cross_entropy. No gradient flows " +
			"through Softmax.",
		Inputs: []ops.Slot{
			{Name: "Logits", Doc: "float, the classes on the last axis"},
			{Name: "Label", Doc: "int64 with a last extent of 1, or with soft_label of the shape and type of Logits"}},
		Outputs: []ops.Slot{
			{Name: "Softmax", Doc: "of the shape and type of Logits"},
			{Name: "Loss", Doc: "dims of Logits with a last extent of 1"}},
		Attrs: append([]ops.Attr{{Name: "use_softmax", Doc: "whether Logits are not probabilities yet", Default: true}}, labelAttrs...),
		Infer: func(s *ops.Shapes) error {
			s.Like("Softmax", "Logits")
			return inferLoss(s, "Logits", "Loss")
		},
		Cost: opkit.PerElement(8),
		Bind: opkit.BindFloats("Logits", bindSoftmaxCrossEntropy[float32], bindSoftmaxCrossEntropy[float64]),
	}, opkit.Gradient{
		Doc: "dLogits = dLoss*(Softmax - 1 where the class is Label), or dLoss*(Softmax - Label) with soft_label, whose rows " +
			"are taken to sum to 1. With use_softmax false that of cross_entropy.",
		Inputs:  []string{"Label"},
		Outputs: []string{"Softmax"},
		From:    []string{"Loss"},
		Wrt:     []string{"Logits"},
		StandIn: map[string]string{"Logits": "Softmax"},
		InPlace: map[string]string{"Logits@GRAD": "Softmax"},
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("Softmax", bindSoftmaxCrossEntropyGrad[float32], bindSoftmaxCrossEntropyGrad[float64]),
	})
}

func bindSoftmaxCrossEntropy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x := b.In("Logits")
	softmax, loss := orScratch[T](b, "Softmax", x.Len()), orScratch[T](b, "Loss", opkit.Count(x.Dims()[:len(x.Dims())-1]))
	rows, classes := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	given := !b.Bool("use_softmax")
	return byLabel(b, rows, classes, func(from, to int, labels []T) {
		y, cost, logits := opkit.Owned[T](softmax, from, to, rows), tensor.Data[T](loss)[from:to], opkit.Owned[T](x, from, to, rows)
		if given {
			copy(y, logits)
			kernel.CrossEntropySoft(cost, logits, labels, to-from, classes)
			return
		}
		kernel.SoftmaxCrossEntropySoft(y, cost, logits, labels, to-from, classes)
	}, func(from, to int, labels []int64, ignored int64) {
		y, cost, logits := opkit.Owned[T](softmax, from, to, rows), tensor.Data[T](loss)[from:to], opkit.Owned[T](x, from, to, rows)
		if given {
			copy(y, logits)
			kernel.CrossEntropy(cost, logits, labels, to-from, classes, ignored)
			return
		}
		kernel.SoftmaxCrossEntropy(y, cost, logits, labels, to-from, classes, ignored)
	})
}

func bindSoftmaxCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, dloss, dx := b.In("Softmax"), b.In("Loss@GRAD"), b.Out("Logits@GRAD")
	rows, classes := opkit.Matrix(y.Dims(), len(y.Dims())-1)
	given := !b.Bool("use_softmax")
	return byLabel(b, rows, classes, func(from, to int, labels []T) {
		softmax, dcost := opkit.Owned[T](y, from, to, rows), tensor.Data[T](dloss)[from:to]
		if given {
			kernel.CrossEntropySoftGrad(opkit.Owned[T](dx, from, to, rows), softmax, labels, dcost, to-from, classes)
			return
		}
		kernel.SoftmaxCrossEntropySoftGrad(opkit.Owned[T](dx, from, to, rows), softmax, labels, dcost, to-from, classes)
	}, func(from, to int, labels []int64, ignored int64) {
		softmax, dcost := opkit.Owned[T](y, from, to, rows), tensor.Data[T](dloss)[from:to]
		if given {
			kernel.CrossEntropyGrad(opkit.Owned[T](dx, from, to, rows), softmax, labels, dcost, to-from, classes, ignored)
			return
		}
		kernel.SoftmaxCrossEntropyGrad(opkit.Owned[T](dx, from, to, rows), softmax, labels, dcost, to-from, classes, ignored)
	})
}

func init() {
	opkit.Register(ops.Def{
		Type: "sigmoid_cross_entropy_with_logits",
		Doc: "The cross entropy of the logit of one of two classes: Out = max(X, 0) - X*Label + log(1 + exp(-|X|)), " +
			"zero where Label is ignore_index.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float logits"},
			{Name: "Label", Doc: "from 0 to 1, of the shape and type of X"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs: []ops.Attr{
			{Name: "ignore_index", Doc: "label of elements that do not count", Default: int32(-100)},
			{Name: "normalize", Doc: "only false; a program of Fluid with true is read as the costs and a division by the number of elements that count",
				Default: false, Check: neverNormalize}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			s.Like("Out", "X")
			return opkit.SameShape(s, "X", "Label")
		},
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("X", bindSigmoidCrossEntropy[float32], bindSigmoidCrossEntropy[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = dOut*(sigmoid(X) - Label), zero where Label is ignore_index.",
		Inputs:  []string{"X", "Label"},
		Wrt:     []string{"X"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(5),
		Bind:    opkit.BindFloats("X", bindSigmoidCrossEntropyGrad[float32], bindSigmoidCrossEntropyGrad[float64]),
	})
}

func neverNormalize(op *program.Op) error {
	if on, _ := op.Bool("normalize"); on {
		return fault.New(fault.Unsupported, "false; divide the sum of the costs by what counts")
	}
	return nil
}

func bindSigmoidCrossEntropy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, label, out, ignored := b.In("X"), b.In("Label"), b.Out("Out"), T(b.Int("ignore_index"))
	return opkit.Loop(b, out.Len(), func(from, to int) {
		kernel.SigmoidCrossEntropy(tensor.Data[T](out)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](label)[from:to], ignored)
	})
}

func bindSigmoidCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, label, dout, dx, ignored := b.In("X"), b.In("Label"), b.In("Out@GRAD"), b.Out("X@GRAD"), T(b.Int("ignore_index"))
	return opkit.Loop(b, dx.Len(), func(from, to int) {
		kernel.SigmoidCrossEntropyGrad(tensor.Data[T](dx)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](label)[from:to],
			tensor.Data[T](dout)[from:to], ignored)
	})
}

func init() {
	opkit.Register(ops.Def{
		Type: "log_loss",
		Doc: "The cross entropy of the probability of one of two classes: Loss = -Labels*log(Predicted + epsilon) - " +
			"(1 - Labels)*log(1 - Predicted + epsilon).",
		Inputs: []ops.Slot{
			{Name: "Predicted", Doc: "float probabilities"},
			{Name: "Labels", Doc: "0 or 1, of the shape and type of Predicted"}},
		Outputs: []ops.Slot{{Name: "Loss", Doc: "of the shape and type of Predicted"}},
		Attrs:   []ops.Attr{{Name: "epsilon", Doc: "keeps the logarithms finite, at least 0", Kind: float32(0)}},
		Infer: func(s *ops.Shapes) error {
			if !(s.Float("epsilon") >= 0) {
				return opkit.BadAttr(s, "epsilon", "at least 0")
			}
			if err := s.IsFloat("Predicted"); err != nil {
				return err
			}
			s.Like("Loss", "Predicted")
			return opkit.SameShape(s, "Predicted", "Labels")
		},
		Cost:    opkit.PerElement(12),
		Bind:    opkit.BindFloats("Predicted", bindLogLoss[float32], bindLogLoss[float64]),
		InPlace: map[string]string{"Loss": "Predicted"},
	}, opkit.Gradient{
		Doc:     "dPredicted = dLoss*((1 - Labels)/(1 - Predicted + epsilon) - Labels/(Predicted + epsilon)).",
		Inputs:  []string{"Predicted", "Labels"},
		Wrt:     []string{"Predicted"},
		InPlace: map[string]string{"Predicted@GRAD": "Loss@GRAD"},
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("Predicted", bindLogLossGrad[float32], bindLogLossGrad[float64]),
	})
}

func bindLogLoss[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	p, labels, loss, epsilon := b.In("Predicted"), b.In("Labels"), b.Out("Loss"), b.Float("epsilon")
	return func(context.Context) error {
		kernel.LogLoss(tensor.Data[T](loss), tensor.Data[T](p), tensor.Data[T](labels), epsilon)
		return nil
	}, nil
}

func bindLogLossGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	p, labels, dloss, dp := b.In("Predicted"), b.In("Labels"), b.In("Loss@GRAD"), b.Out("Predicted@GRAD")
	epsilon := b.Float("epsilon")
	return func(context.Context) error {
		kernel.LogLossGrad(tensor.Data[T](dp), tensor.Data[T](p), tensor.Data[T](labels), tensor.Data[T](dloss), epsilon)
		return nil
	}, nil
}
