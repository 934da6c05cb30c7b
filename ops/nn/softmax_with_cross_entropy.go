package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/bind"
	"github.com/edl-go/edl/ops/internal/infer"
	"github.com/edl-go/edl/ops/internal/pair"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	pair.Register(ops.Def{
		Type: "softmax_with_cross_entropy",
		Doc: "The cross entropy of labels and the softmax of logits, computed together so that no probability is rounded " +
			"before its logarithm is taken: Loss = log(sum(exp(Logits))) - Logits[Label] for each row. No gradient flows " +
			"through Softmax.",
		Inputs: []ops.Slot{
			{Name: "Logits", Doc: "float, the classes on the last axis"},
			{Name: "Label", Doc: "int64 with a last extent of 1, or with soft_label of the shape and type of Logits"}},
		Outputs: []ops.Slot{
			{Name: "Softmax", Doc: "of the shape and type of Logits"},
			{Name: "Loss", Doc: "dims of Logits with a last extent of 1"}},
		Attrs: labelAttrs,
		Infer: func(s *ops.Shapes) error {
			s.Like("Softmax", "Logits")
			return inferLoss(s, "Logits", "Loss")
		},
		Cost: infer.PerElement(8),
		Bind: bind.Floats("Logits", bindSoftmaxCrossEntropy[float32], bindSoftmaxCrossEntropy[float64]),
	}, pair.Gradient{
		Doc: "dLogits = dLoss*(Softmax - 1 where the class is Label), or dLoss*(Softmax - Label) with soft_label, whose rows " +
			"are taken to sum to 1.",
		Inputs:  []string{"Label"},
		Outputs: []string{"Softmax"},
		From:    []string{"Loss"},
		Wrt:     []string{"Logits"},
		StandIn: map[string]string{"Logits": "Softmax"},
		InPlace: map[string]string{"Logits@GRAD": "Softmax"},
		Cost:    infer.PerElement(2),
		Bind:    bind.Floats("Softmax", bindSoftmaxCrossEntropyGrad[float32], bindSoftmaxCrossEntropyGrad[float64]),
	})
}

func bindSoftmaxCrossEntropy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, label := b.Op(), b.In("Logits"), b.In("Label")
	softmax, loss := orScratch[T](b, "Softmax", x.Len()), orScratch[T](b, "Loss", bind.Count(x.Dims()[:len(x.Dims())-1]))
	rows, classes := bind.Matrix(x.Dims(), len(x.Dims())-1)
	ignored := b.Int("ignore_index")
	soft := b.Bool("soft_label")
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		y, cost, logits := bind.Cut[T](softmax, from, to, rows), tensor.Data[T](loss)[from:to], bind.Cut[T](x, from, to, rows)
		if soft {
			kernel.SoftmaxCrossEntropySoft(y, cost, logits, bind.Cut[T](label, from, to, rows), to-from, classes)
			return nil
		}
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		kernel.SoftmaxCrossEntropy(y, cost, logits, labels, to-from, classes, ignored)
		return nil
	}})
}

func bindSoftmaxCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, y, label, dloss, dx := b.Op(), b.In("Softmax"), b.In("Label"), b.In("Loss@GRAD"), b.Out("Logits@GRAD")
	rows, classes := bind.Matrix(y.Dims(), len(y.Dims())-1)
	ignored := b.Int("ignore_index")
	soft := b.Bool("soft_label")
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		dlogits, softmax, dcost := bind.Cut[T](dx, from, to, rows), bind.Cut[T](y, from, to, rows), tensor.Data[T](dloss)[from:to]
		if soft {
			kernel.SoftmaxCrossEntropySoftGrad(dlogits, softmax, bind.Cut[T](label, from, to, rows), dcost, to-from, classes)
			return nil
		}
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		kernel.SoftmaxCrossEntropyGrad(dlogits, softmax, labels, dcost, to-from, classes, ignored)
		return nil
	}})
}
