package nn

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// maxThresholds bounds the memory of counts: 8 MB each.
const maxThresholds = 1 << 20

func init() {
	ops.Register(ops.Def{
		Type: "auc",
		Doc: "The area under the receiver operating characteristic: how probable it is that a row of label 1 has a larger score than a row of label 0. " +
			"Scores are counted in num_thresholds + 1 bins of equal width, and two in one bin count one half; it is 0 if all labels are equal. With StatPos and " +
			"StatNeg the rows of all earlier steps count, too. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Predict", Doc: "float [N, C], probabilities; the last column is that of label 1"},
			{Name: "Label", Doc: "int64 [N, 1], 0 or 1"},
			{Name: "StatPos", Doc: "int64 [num_thresholds + 1] or [1, num_thresholds + 1], rows of label 1 by bin before this step", Dispensable: true},
			{Name: "StatNeg", Doc: "int64 [num_thresholds + 1], likewise for label 0", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "AUC", Doc: "float64, dims [1]"},
			{Name: "StatPosOut", Doc: "the variable of StatPos", Dispensable: true},
			{Name: "StatNegOut", Doc: "the variable of StatNeg", Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "curve", Doc: "ROC", Default: "ROC"},
			{Name: "num_thresholds", Doc: "number of bins less one, 1 to 1048576", Default: int32(4095)},
			{Name: "slide_steps", Doc: "0 with StatPos: all steps count", Default: int32(1)}},
		Infer: inferAUC,
		Cost:  opkit.PerElement(2),
		Bind:  opkit.BindFloats("Predict", bindAUC[float32], bindAUC[float64]),

		MixesRows: opkit.Mixes,
		InPlace:   map[string]string{"StatPosOut": "StatPos", "StatNegOut": "StatNeg"},
		State:     map[string]ops.Merge{"StatPosOut": ops.MergeSum, "StatNegOut": ops.MergeSum},
	})
}

func inferAUC(s *ops.Shapes) error {
	if err := s.IsFloat("Predict"); err != nil {
		return err
	}
	if err := s.Rank("Predict", 2); err != nil {
		return err
	}
	if columns := s.In("Predict").Dims[1]; columns == 0 {
		return s.Errorf("Predict", "at least one column")
	}
	if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	if err := checkLabelDims(s, "Label", "Predict"); err != nil {
		return err
	}
	if s.Str("curve") != "ROC" {
		return opkit.UnsupportedAttr(s, "curve", "ROC")
	}
	thresholds := s.Int("num_thresholds")
	if thresholds < 1 || thresholds > maxThresholds {
		return opkit.BadAttr(s, "num_thresholds", "1 to %d", maxThresholds)
	}
	s.Set("AUC", tensor.Float64, 1)
	if s.Has("StatPos") != s.Has("StatNeg") {
		return s.Errorf("StatPos", "StatPos and StatNeg, or neither")
	}
	if !s.Has("StatPos") {
		return nil
	}
	if s.Int("slide_steps") != 0 {
		return opkit.UnsupportedAttr(s, "slide_steps", "0")
	}
	for _, slot := range []string{"StatPos", "StatNeg"} {
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
			return err
		}
		bins, row := []int64{thresholds + 1}, []int64{1, thresholds + 1} // Fluid declares a row since 1.3
		if dims := s.In(slot).Dims; !ops.Compatible(dims, bins) && !ops.Compatible(dims, row) {
			return s.Errorf(slot, "dims [%d] or [1 %d], one number for each bin", thresholds+1, thresholds+1)
		}
		s.Like(slot+"Out", slot)
	}
	return nil
}

func bindAUC[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, predict, labels, area := b.Op(), b.In("Predict"), b.In("Label"), b.Out("AUC")
	if area == nil {
		area = b.Scratch(tensor.Float64, 1)
	}
	bins, width := int(b.Int("num_thresholds"))+1, int(predict.Dims()[1])
	counts := func(slot string) (from, to *tensor.Tensor) { return b.In(slot), orScratch[int64](b, slot+"Out", bins) }
	positiveBefore, positive := counts("StatPos")
	negativeBefore, negative := counts("StatNeg")
	start := func(counts, before *tensor.Tensor) []int64 {
		if before == nil {
			clear(counts.Int64s())
		} else {
			copy(counts.Int64s(), before.Int64s())
		}
		return counts.Int64s()
	}
	return func(context.Context) error {
		if at := kernel.FirstBadLabel(labels.Int64s(), 2, 0); at >= 0 {
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Label")),
				fault.Gotf("label %d in row %d", labels.Int64s()[at], at), fault.Want("0 or 1"))
		}
		scores := tensor.Data[T](predict)
		if at := kernel.FirstNoProbability(scores); at >= 0 {
			return fault.E(fault.NotFinite, fault.On(op), fault.Var(op.In("Predict")),
				fault.Gotf("%v in row %d", scores[at], at/width), fault.Want("a probability, 0 to 1"))
		}
		p, n := start(positive, positiveBefore), start(negative, negativeBefore)
		kernel.CountScores(p, n, scores, labels.Int64s(), width)
		area.Float64s()[0] = kernel.AUC(p, n)
		return nil
	}, nil
}
