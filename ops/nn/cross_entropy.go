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
		Type: "cross_entropy",
		Doc: "The cross entropy of probabilities and labels: Y = -log(X[Label]) for each row, or -sum(Label*log(X)) with " +
			"soft_label. A probability of 0 costs 1e20.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float probabilities, the classes on the last axis"},
			{Name: "Label", Doc: "int64 with a last extent of 1, or with soft_label of the shape and type of X"}},
		Outputs: []ops.Slot{{Name: "Y", Doc: "dims of X with a last extent of 1"}},
		Attrs:   labelAttrs,
		Infer:   func(s *ops.Shapes) error { return inferLoss(s, "X", "Y") },
		Cost:    infer.PerElement(2),
		Bind:    bind.Floats("X", bindCrossEntropy[float32], bindCrossEntropy[float64]),
	}, pair.Gradient{
		Doc:    "dX[Label] = -dY/X[Label] and 0 for the other classes; with soft_label dX = -dY*Label/X.",
		Inputs: []string{"X", "Label"},
		Wrt:    []string{"X"},
		Cost:   infer.PerElement(2),
		Bind:   bind.Floats("X", bindCrossEntropyGrad[float32], bindCrossEntropyGrad[float64]),
	})
}

func bindCrossEntropy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, label, y := b.Op(), b.In("X"), b.In("Label"), b.Out("Y")
	rows, classes := bind.Matrix(x.Dims(), len(x.Dims())-1)
	ignored := b.Int("ignore_index")
	soft := b.Bool("soft_label")
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		cost, probabilities := tensor.Data[T](y)[from:to], bind.Cut[T](x, from, to, rows)
		if soft {
			kernel.CrossEntropySoft(cost, probabilities, bind.Cut[T](label, from, to, rows), to-from, classes)
			return nil
		}
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		kernel.CrossEntropy(cost, probabilities, labels, to-from, classes, ignored)
		return nil
	}})
}

func bindCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, label, dy, dx := b.Op(), b.In("X"), b.In("Label"), b.In("Y@GRAD"), b.Out("X@GRAD")
	rows, classes := bind.Matrix(x.Dims(), len(x.Dims())-1)
	ignored := b.Int("ignore_index")
	soft := b.Bool("soft_label")
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		dprobabilities, probabilities, dcost := bind.Cut[T](dx, from, to, rows), bind.Cut[T](x, from, to, rows), tensor.Data[T](dy)[from:to]
		if soft {
			kernel.CrossEntropySoftGrad(dprobabilities, probabilities, bind.Cut[T](label, from, to, rows), dcost, to-from, classes)
			return nil
		}
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		kernel.CrossEntropyGrad(dprobabilities, probabilities, labels, dcost, to-from, classes, ignored)
		return nil
	}})
}
