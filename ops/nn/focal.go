package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sigmoid_focal_loss",
		Doc: "A cross entropy in which easy examples count little (Lin et al. 2017), for a class of its own of each row and a background: with p = sigmoid(X), Out is " +
			"-alpha*(1 - p)**gamma*log(p) for class Label - 1 of a row, and -(1 - alpha)*p**gamma*log(1 - p) for the others, over max(FgNum, 1). Label 0 is the " +
			"background, and rows with the label -1 cost nothing.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float logits [rows, classes], without the background"},
			{Name: "Label", Doc: "int32 [rows, 1], -1 to the number of classes"},
			{Name: "FgNum", Doc: "int32 [1], the number of rows that are no background"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs: []ops.Attr{
			{Name: "gamma", Doc: "how little easy examples count, at least 0", Default: float32(2), Check: atLeastZero("gamma")},
			{Name: "alpha", Doc: "what the class of a row counts, and others 1 - alpha, at least 0", Default: float32(0.25), Check: atLeastZero("alpha")}},
		Infer: inferFocal,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool {
			return divided("FgNum") || divided("X") != divided("Label")
		},
		Cost: opkit.PerElement(40),
		Bind: opkit.BindFloats("X", bindFocal[float32], bindFocal[float64]),
	}, opkit.Gradient{
		Doc: "with n = max(FgNum, 1), dX = -dOut*alpha*(1 - p)**gamma*(1 - p - gamma*p*log(p))/n for class Label - 1, and " +
			"dOut*(1 - alpha)*p**gamma*(p - gamma*(1 - p)*log(1 - p))/n for the others.",
		Inputs: []string{"X", "Label", "FgNum"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(50),
		Bind:   opkit.BindFloats("X", bindFocalGrad[float32], bindFocalGrad[float64]),
	})
}

func inferFocal(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.Rank("X", 2); err != nil {
		return err
	}
	for _, slot := range []string{"Label", "FgNum"} {
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int32, "int32"); err != nil {
			return err
		}
	}
	if !ops.Compatible(s.In("FgNum").Dims, []int64{1}) {
		return s.Errorf("FgNum", "one number [1]")
	}
	s.Like("Out", "X")
	return checkLabelDims(s, "Label", "X")
}

func bindFocal[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, gamma, alpha := b.In("X"), b.Out("Out"), b.Float("gamma"), b.Float("alpha")
	return focalLoop(b, func(from, to, rows, classes int, labels []int32, n float64) {
		kernel.SigmoidFocalLoss(opkit.Owned[T](out, from, to, rows), opkit.Owned[T](x, from, to, rows), labels, classes, gamma, alpha, n)
	})
}

func bindFocalGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx, gamma, alpha := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Float("gamma"), b.Float("alpha")
	return focalLoop(b, func(from, to, rows, classes int, labels []int32, n float64) {
		kernel.SigmoidFocalLossGrad(opkit.Owned[T](dx, from, to, rows), opkit.Owned[T](x, from, to, rows), opkit.Owned[T](dout, from, to, rows), labels, classes,
			gamma, alpha, n)
	})
}

// focalLoop makes the loop over rows of logits with a label each, which it checks. n is what losses are divided by.
func focalLoop(b *ops.Binding, run func(from, to, rows, classes int, labels []int32, n float64)) (ops.Kernel, error) {
	op, label, foreground := b.Op(), b.In("Label"), b.In("FgNum")
	rows, classes := opkit.Matrix(b.In("X").Dims(), 1)
	return b.Loops(ops.Loop{N: rows, Whole: []string{"FgNum"}, Run: func(_, from, to int) error {
		labels := label.Int32s()[from:to]
		for i, l := range labels {
			if l < -1 || int(l) > classes {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Label")), fault.Gotf("label %d in row %d", l, from+i),
					fault.Wantf("0 to %d, or -1 to ignore the row", classes))
			}
		}
		run(from, to, rows, classes, labels, float64(max(1, foreground.Int32s()[0])))
		return nil
	}})
}
