package nn

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ignore := ops.Attr{Name: "ignore_index", Doc: "label of rows that do not count", Default: int32(-100)}
	ops.Register(ops.Def{
		Type: "cross_entropy2",
		Doc:  "The cross entropy of probabilities and labels, as cross_entropy without soft_label: Y = -log(X[Label]) for each row. It keeps the probability for its gradient.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float probabilities, the classes on the last axis"},
			{Name: "Label", Doc: "int64 with a last extent of 1"}},
		Outputs: []ops.Slot{
			{Name: "Y", Doc: "dims of X with a last extent of 1"},
			{Name: "MatchX", Doc: "as Y: X[Label], 0 for rows that do not count", Intermediate: true},
			{Name: "XShape", Doc: "no elements: [0, dims of X]", Intermediate: true}},
		Attrs: []ops.Attr{ignore},
		Infer: func(s *ops.Shapes) error {
			if err := inferLoss(s, "X", "Y"); err != nil {
				return err
			}
			x := s.In("X")
			if len(s.Outs("MatchX")) > 0 {
				s.Set("MatchX", x.DType, slices.Concat(x.Dims[:len(x.Dims)-1], []int64{1})...)
			}
			s.Set("XShape", x.DType, slices.Concat([]int64{0}, x.Dims)...)
			return nil
		},
		Cost:     opkit.PerElement(2),
		Bind:     opkit.BindFloats("X", bindCrossEntropy2[float32], bindCrossEntropy2[float64]),
		Gradient: ops.StandardGrad([]string{"Label"}, []string{"MatchX", "XShape"}, []string{"X"}),
	})
	ops.Register(ops.Def{
		Type:  "cross_entropy2_grad",
		Class: ops.Backward,
		Doc:   "The gradient of cross_entropy2: dX[Label] = -dY/MatchX, and 0 for the other classes and rows that do not count.",
		Inputs: []ops.Slot{
			{Name: "Label", Doc: "as in cross_entropy2"},
			{Name: "MatchX", Doc: "as in cross_entropy2"},
			{Name: "XShape", Doc: "as in cross_entropy2"},
			{Name: program.GradName("Y"), Doc: "gradient of Y"}},
		Outputs: []ops.Slot{{Name: program.GradName("X"), Doc: "gradient of X", Dispensable: true}},
		Attrs:   []ops.Attr{ignore},
		Infer: func(s *ops.Shapes) error {
			shape := s.In("XShape").Dims
			if len(shape) < 2 {
				return s.Errorf("XShape", "dims of X after a 0")
			}
			each := slices.Concat(shape[1:len(shape)-1], []int64{1})
			for _, slot := range []string{"MatchX", "Label", program.GradName("Y")} {
				if !ops.Compatible(s.In(slot).Dims, each) {
					return s.Errorf(slot, "dims %v", each)
				}
			}
			if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
				return err
			}
			if err := s.SameType("MatchX", program.GradName("Y")); err != nil {
				return err
			}
			s.Set(program.GradName("X"), s.In("MatchX").DType, shape[1:]...)
			s.ShareLoD(program.GradName("X"), "MatchX")
			return s.IsFloat("MatchX")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("MatchX", bindCrossEntropy2Grad[float32], bindCrossEntropy2Grad[float64]),
	})
}

func bindCrossEntropy2[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, op, label, ignored := b.In("X"), b.Op(), b.In("Label"), b.Int("ignore_index")
	rows, classes := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	y, match := orScratch[T](b, "Y", rows), orScratch[T](b, "MatchX", rows)
	return b.Loops(ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		kernel.CrossEntropy(tensor.Data[T](y)[from:to], opkit.Owned[T](x, from, to, rows), labels, to-from, classes, ignored)
		for i, class := range labels {
			if tensor.Data[T](match)[from+i] = 0; class != ignored {
				tensor.Data[T](match)[from+i] = tensor.Data[T](x)[(from+i)*classes+int(class)]
			}
		}
		return nil
	}})
}

func bindCrossEntropy2Grad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, label, match, dy, dx, ignored := b.Op(), b.In("Label"), b.In("MatchX"), b.In("Y@GRAD"), b.Out("X@GRAD"), b.Int("ignore_index")
	rows, classes := opkit.Matrix(dx.Dims(), len(dx.Dims())-1)
	return b.Loops(ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		for i, class := range labels {
			row := tensor.Data[T](dx)[(from+i)*classes : (from+i+1)*classes]
			clear(row)
			if class != ignored {
				row[class] = -tensor.Data[T](dy)[from+i] / tensor.Data[T](match)[from+i]
			}
		}
		return nil
	}})
}
