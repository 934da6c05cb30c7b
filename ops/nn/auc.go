package nn

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

const (
	maxThresholds = 1 << 20 // bounds the memory of counts: 8 MB each
	maxSlideSteps = 1 << 16
)

const countsDoc = "int64, rows of label 1 by bin before this step. Without slide_steps [num_thresholds + 1], also with 1 before it; one number more is left alone. With S slide_steps " +
	"[(S + 1)*(num_thresholds + 1) + 1], as in Fluid since 1.6: the counts of S steps, their sum, and the number of steps so far, whose counts take the place of those S steps before; or " +
	"[S, num_thresholds + 1], as in Fluid 1.3: the counts of S steps, the newest last"

func init() {
	ops.Register(ops.Def{
		Type: "auc",
		Doc: "The area under the receiver operating characteristic: how probable it is that a row of label 1 has a larger score than a row of label 0. " +
			"Scores are counted in num_thresholds + 1 bins of equal width, and two in one bin count one half; it is 0 if all labels are equal. With StatPos and " +
			"StatNeg the rows of earlier steps count, too: those of all, or of the last slide_steps with this one. On a cluster it is that of the batch, too, if StatPos and StatNeg are persistable. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Predict", Doc: "float [N, C], probabilities; the last column is that of label 1"},
			{Name: "Label", Doc: "int64 [N, 1] or [N], 0 or 1; larger ones count as 1"},
			{Name: "StatPos", Doc: countsDoc, Dispensable: true},
			{Name: "StatNeg", Doc: "likewise for label 0", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "AUC", Doc: "float64, dims [1]"},
			{Name: "StatPosOut", Doc: "the variable of StatPos", Dispensable: true},
			{Name: "StatNegOut", Doc: "the variable of StatNeg", Dispensable: true}},
		Attrs: aucAttrs,
		Infer: inferAUC,
		Cost:  opkit.PerElement(2),
		Bind:  opkit.BindFloats("Predict", bindAUC[float32], bindAUC[float64]),

		MixesRows: opkit.Mixes,
		InPlace:   map[string]string{"StatPosOut": "StatPos", "StatNegOut": "StatNeg"},
		State:     map[string]ops.Merge{"StatPosOut": ops.MergeSum, "StatNegOut": ops.MergeSum},
		Recounts:  &ops.Recount{Type: "auc_of_counts", Out: "AUC", Counts: map[string]string{"StatPos": "StatPosOut", "StatNeg": "StatNegOut"}},
	})
	ops.Register(ops.Def{
		Type: "auc_of_counts",
		Doc:  "The area under the receiver operating characteristic of rows that auc has counted. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "StatPos", Doc: "as StatPosOut of auc"},
			{Name: "StatNeg", Doc: "as StatNegOut of auc"}},
		Outputs: []ops.Slot{{Name: "AUC", Doc: "float64, dims [1]"}},
		Attrs:   aucAttrs,
		Infer: func(s *ops.Shapes) error {
			s.Set("AUC", tensor.Float64, 1)
			return checkCounts(s)
		},
		Cost: opkit.PerElement(2),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			positive, negative, area := b.In("StatPos"), b.In("StatNeg"), orScratch[float64](b, "AUC", 1)
			l, bins := layoutOf(b, positive), b.Scratch(tensor.Int64, 2*(int(b.Int("num_thresholds"))+1))
			return func(context.Context) error {
				area.Float64s()[0] = l.AUC(positive.Int64s(), negative.Int64s(), bins.Int64s())
				return nil
			}, nil
		},
		MixesRows: opkit.Mixes,
	})
}

var aucAttrs = []ops.Attr{
	{Name: "curve", Doc: "ROC", Default: "ROC"},
	{Name: "num_thresholds", Doc: "number of bins less one, 1 to 1048576", Default: int32(4095)},
	{Name: "slide_steps", Doc: "with StatPos, how many steps count, this one with them; 0: all", Default: int32(1)}}

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
	if d, x := s.In("Label").Dims, s.In("Predict").Dims; len(d) != 1 || !opkit.Agree(d[0], x[0]) { // one label for each row, as masks choose them
		if err := checkLabelDims(s, "Label", "Predict"); err != nil {
			return err
		}
	}
	s.Set("AUC", tensor.Float64, 1)
	if s.Has("StatPos") != s.Has("StatNeg") {
		return s.Errorf("StatPos", "StatPos and StatNeg, or neither")
	}
	if err := checkCounts(s); err != nil || !s.Has("StatPos") {
		return err
	}
	s.Like("StatPosOut", "StatPos")
	s.Like("StatNegOut", "StatNeg")
	return nil
}

// checkCounts checks the attributes, and the counts if there are some.
func checkCounts(s *ops.Shapes) error {
	if s.Str("curve") != "ROC" {
		return opkit.UnsupportedAttr(s, "curve", "ROC")
	}
	thresholds, steps := s.Int("num_thresholds"), s.Int("slide_steps")
	if thresholds < 1 || thresholds > maxThresholds {
		return opkit.BadAttr(s, "num_thresholds", "1 to %d", maxThresholds)
	}
	if steps < 0 || steps > maxSlideSteps {
		return opkit.BadAttr(s, "slide_steps", "0 to %d", maxSlideSteps)
	}
	for _, slot := range []string{"StatPos", "StatNeg"} {
		if !s.Has(slot) {
			continue
		}
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
			return err
		}
		if slices.Contains(s.In(slot).Dims, program.Unknown) {
			continue
		}
		n := ops.Product(s.In(slot).Dims)
		if _, ok := kernel.CountsOf(n, thresholds+1, steps); !ok {
			if steps == 0 {
				return s.Errorf(slot, "dims [%d] or [1 %d], one number for each bin", thresholds+1, thresholds+1)
			}
			return s.Errorf(slot, "dims [%d], for the counts of %d steps, their sum and the number of steps", (steps+1)*(thresholds+1)+1, steps)
		}
		if other := s.In("StatPos").Dims; !slices.Contains(other, program.Unknown) && ops.Product(other) != n {
			return s.Errorf(slot, "as many counts as StatPos has")
		}
	}
	return nil
}

// layoutOf returns how counts lie. Inference has checked that they do.
func layoutOf(b *ops.Binding, counts *tensor.Tensor) kernel.Counts {
	l, _ := kernel.CountsOf(int64(counts.Len()), b.Int("num_thresholds")+1, b.Int("slide_steps"))
	return l
}

func bindAUC[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, predict, labels, area := b.Op(), b.In("Predict"), b.In("Label"), b.Out("AUC")
	if area == nil {
		area = b.Scratch(tensor.Float64, 1)
	}
	bins, width, step := int(b.Int("num_thresholds"))+1, int(predict.Dims()[1]), b.Env.Step
	positiveBefore, negativeBefore := b.In("StatPos"), b.In("StatNeg")
	l, n := kernel.Counts{Bins: bins}, bins
	if positiveBefore != nil {
		l, n = layoutOf(b, positiveBefore), positiveBefore.Len()
	}
	positive, negative := orScratch[int64](b, "StatPosOut", n), orScratch[int64](b, "StatNegOut", n)
	sums := b.Scratch(tensor.Int64, 2*bins)
	start := func(counts, before *tensor.Tensor) []int64 {
		if before == nil {
			clear(counts.Int64s())
		} else {
			copy(counts.Int64s(), before.Int64s())
		}
		return counts.Int64s()
	}
	return func(context.Context) error {
		if at := kernel.FirstBadLabel(labels.Int64s(), math.MaxInt64, 0); at >= 0 {
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Label")),
				fault.Gotf("label %d in row %d", labels.Int64s()[at], at), fault.Want("0, or above it for a positive"))
		}
		scores := tensor.Data[T](predict)
		if at := kernel.FirstNoProbability(scores); at >= 0 {
			return fault.E(fault.NotFinite, fault.On(op), fault.Var(op.In("Predict")),
				fault.Gotf("%v in row %d", scores[at], at/width), fault.Want("a probability, 0 to 1"))
		}
		p, n := start(positive, positiveBefore), start(negative, negativeBefore)
		// Of trainers that have parts of a batch, the first begins the step: so the changes of all add up to those of one machine.
		at := l.Begin(p, step.RowOffset == 0)
		l.Begin(n, step.RowOffset == 0)
		kernel.CountScores(p[at:at+bins], n[at:at+bins], scores, labels.Int64s(), width)
		if sum := l.Sum(); sum >= 0 {
			kernel.CountScores(p[sum:sum+bins], n[sum:sum+bins], scores, labels.Int64s(), width)
		}
		area.Float64s()[0] = l.AUC(p, n, sums.Int64s())
		return nil
	}, nil
}
