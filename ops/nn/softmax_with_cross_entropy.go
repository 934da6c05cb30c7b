package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
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
		Cost: opkit.PerElement(8),
		Bind: opkit.BindFloats("Logits", bindSoftmaxCrossEntropy[float32], bindSoftmaxCrossEntropy[float64]),
	}, opkit.Gradient{
		Doc: "dLogits = dLoss*(Softmax - 1 where the class is Label), or dLoss*(Softmax - Label) with soft_label, whose rows " +
			"are taken to sum to 1.",
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
	return byLabel(b, rows, classes, func(from, to int, labels []T) {
		y, cost, logits := opkit.Owned[T](softmax, from, to, rows), tensor.Data[T](loss)[from:to], opkit.Owned[T](x, from, to, rows)
		kernel.SoftmaxCrossEntropySoft(y, cost, logits, labels, to-from, classes)
	}, func(from, to int, labels []int64, ignored int64) {
		y, cost, logits := opkit.Owned[T](softmax, from, to, rows), tensor.Data[T](loss)[from:to], opkit.Owned[T](x, from, to, rows)
		kernel.SoftmaxCrossEntropy(y, cost, logits, labels, to-from, classes, ignored)
	})
}

func bindSoftmaxCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, dloss, dx := b.In("Softmax"), b.In("Loss@GRAD"), b.Out("Logits@GRAD")
	rows, classes := opkit.Matrix(y.Dims(), len(y.Dims())-1)
	return byLabel(b, rows, classes, func(from, to int, labels []T) {
		softmax, dcost := opkit.Owned[T](y, from, to, rows), tensor.Data[T](dloss)[from:to]
		kernel.SoftmaxCrossEntropySoftGrad(opkit.Owned[T](dx, from, to, rows), softmax, labels, dcost, to-from, classes)
	}, func(from, to int, labels []int64, ignored int64) {
		softmax, dcost := opkit.Owned[T](y, from, to, rows), tensor.Data[T](dloss)[from:to]
		kernel.SoftmaxCrossEntropyGrad(opkit.Owned[T](dx, from, to, rows), softmax, labels, dcost, to-from, classes, ignored)
	})
}
