package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// mostSegmentClasses bounds what mean_iou allocates.
const mostSegmentClasses = 1 << 20

func init() {
	ops.Register(ops.Def{
		Type: "mean_iou",
		Doc: "Compares the classes of pixels with predicted ones: OutMeanIou is the mean, over the classes that occur, of the pixels that both give to a class over those " +
			"that either gives to it, 0 if none occurs. A pixel that is wrong counts in OutWrong for its true class and for the predicted one. Counts of " +
			"InWrongs and InCorrects are added before, and InMeanIou after. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Predictions", Doc: "int32 or int64, 0 to num_classes - 1"},
			{Name: "Labels", Doc: "of the shape and type of Predictions"},
			{Name: "InWrongs", Doc: "int32 [num_classes], counts of other batches", Dispensable: true, Duplicable: true},
			{Name: "InCorrects", Doc: "likewise", Dispensable: true, Duplicable: true},
			{Name: "InMeanIou", Doc: "float32 [1]", Dispensable: true, Duplicable: true}},
		Outputs: []ops.Slot{
			{Name: "OutMeanIou", Doc: "float32 [1]"},
			{Name: "OutWrong", Doc: "int32 [num_classes]"},
			{Name: "OutCorrect", Doc: "int32 [num_classes]"}},
		Attrs:     []ops.Attr{{Name: "num_classes", Doc: "number of classes, at least 1", Kind: int32(0)}},
		Infer:     inferMeanIOU,
		MixesRows: opkit.Mixes,
		Cost:      opkit.PerElement(2),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			if b.In("Predictions").DType() == tensor.Int32 {
				return bindMeanIOU[int32](b)
			}
			return bindMeanIOU[int64](b)
		},
	})
}

func inferMeanIOU(s *ops.Shapes) error {
	t := s.In("Predictions").DType
	if err := opkit.CheckType(s, "Predictions", t == tensor.Int32 || t == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	if err := opkit.SameShape(s, "Predictions", "Labels"); err != nil {
		return err
	}
	classes := s.Int("num_classes")
	if classes < 1 || classes > mostSegmentClasses {
		return opkit.BadAttr(s, "num_classes", "1 to %d", mostSegmentClasses)
	}
	for _, in := range []struct {
		slot string
		want ops.Meta
	}{
		{"InWrongs", ops.Meta{DType: tensor.Int32, Dims: []int64{classes}}},
		{"InCorrects", ops.Meta{DType: tensor.Int32, Dims: []int64{classes}}},
		{"InMeanIou", ops.Meta{DType: tensor.Float32, Dims: []int64{1}}},
	} {
		for _, m := range s.Ins(in.slot) {
			if m.Kind != 0 && (m.DType != in.want.DType || !ops.Compatible(m.Dims, in.want.Dims)) {
				return s.Errorf(in.slot, "%v %v", in.want.DType, in.want.Dims)
			}
		}
	}
	s.Set("OutMeanIou", tensor.Float32, 1)
	s.Set("OutWrong", tensor.Int32, classes)
	s.Set("OutCorrect", tensor.Int32, classes)
	return nil
}

func bindMeanIOU[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	op, predictions, labels, classes := b.Op(), b.In("Predictions"), b.In("Labels"), int(b.Int("num_classes"))
	wrongs, corrects, means := b.Ins("InWrongs"), b.Ins("InCorrects"), b.Ins("InMeanIou")
	mean, wrong, correct := orScratch[float32](b, "OutMeanIou", 1), orScratch[int32](b, "OutWrong", classes), orScratch[int32](b, "OutCorrect", classes)
	checked := func(slot string, pixels []T) error {
		for i, class := range pixels {
			if class < 0 || int64(class) >= int64(classes) {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In(slot)), fault.Gotf("class %d of element %d", class, i), fault.Wantf("0 to %d", classes-1))
			}
		}
		return nil
	}
	total := func(of *tensor.Tensor, from []*tensor.Tensor) []int32 {
		sums := of.Int32s()
		clear(sums)
		for _, t := range from {
			if t != nil {
				for i, n := range t.Int32s() {
					sums[i] += n
				}
			}
		}
		return sums
	}
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		found, truth := tensor.Data[T](predictions), tensor.Data[T](labels)
		if err := checked("Predictions", found); err != nil {
			return err
		}
		if err := checked("Labels", truth); err != nil {
			return err
		}
		bad, good := total(wrong, wrongs), total(correct, corrects)
		for i, class := range truth {
			if found[i] == class {
				good[class]++
			} else {
				bad[class]++
				bad[found[i]]++
			}
		}
		sum, occur := 0.0, 0
		for class, n := range good {
			if either := int64(n) + int64(bad[class]); either > 0 {
				sum += float64(n) / float64(either)
				occur++
			}
		}
		sum /= float64(max(1, occur))
		for _, t := range means {
			if t != nil {
				sum += float64(t.Float32s()[0])
			}
		}
		mean.Float32s()[0] = float32(sum)
		return nil
	}})
}
