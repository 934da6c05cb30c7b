package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

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
