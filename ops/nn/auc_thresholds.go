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

// rateSlots are the counts of auc_at_thresholds, in the order of kernel.Rates.
var rateSlots = [4]string{"TP", "FP", "TN", "FN"}

func init() {
	const doc = "The area under a curve of a classifier, by the trapezoidal rule over num_thresholds thresholds from 0 to 1, as ops auc of Fluid before 1.0 compute it (paddle/fluid/operators/auc_op.h of 2018). "
	inputs := []ops.Slot{
		{Name: "Predict", Doc: "float [N, C], probabilities; column says which counts"},
		{Name: "Label", Doc: "int64 [N, 1] or [N]; all but 0 are positive"}}
	outputs := []ops.Slot{{Name: "AUC", Doc: "float64, dims [1]"}}
	var counts []ops.Slot
	inPlace, state, names := map[string]string{}, map[string]ops.Merge{}, map[string]string{}
	for _, slot := range rateSlots {
		counts = append(counts, ops.Slot{Name: slot, Doc: "int64 [num_thresholds], rows counted before this step"})
		inputs = append(inputs, ops.Slot{Name: slot, Doc: "int64 [num_thresholds], rows counted before this step; without them those of this step count alone", Dispensable: true})
		outputs = append(outputs, ops.Slot{Name: slot + "Out", Doc: "the variable of " + slot, Dispensable: true})
		inPlace[slot+"Out"], state[slot+"Out"], names[slot] = slot, ops.MergeSum, slot+"Out"
	}
	attrs := []ops.Attr{
		{Name: "curve", Doc: "ROC, or PR", Default: "ROC"},
		{Name: "num_thresholds", Doc: "2 to 1048576", Default: int32(200)},
		{Name: "column", Doc: "of Predict, -1 for the last", Default: int32(-1)}}
	ops.Register(ops.Def{
		Type: "auc_at_thresholds",
		Doc: doc + "A row of a label other than 0 counts as TP at thresholds up to its score and as FN above it, one of label 0 as FP and TN. " +
			"On a cluster it is that of the batch, too, if the counts are persistable. The area of PR is positive; Fluid gave it a minus. No gradient flows through it.",
		Inputs: inputs, Outputs: outputs, Attrs: attrs,
		Infer:     inferAUCAtThresholds,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("Predict", bindAUCAtThresholds[float32], bindAUCAtThresholds[float64]),
		MixesRows: opkit.Mixes,
		InPlace:   inPlace,
		State:     state,
		Recounts:  &ops.Recount{Type: "auc_of_rates", Out: "AUC", Counts: names},
	})
	ops.Register(ops.Def{
		Type:   "auc_of_rates",
		Doc:    doc + "It is that of rows that auc_at_thresholds has counted. No gradient flows through it.",
		Inputs: counts, Outputs: outputs[:1:1], Attrs: attrs,
		Infer: func(s *ops.Shapes) error {
			s.Set("AUC", tensor.Float64, 1)
			return checkRates(s)
		},
		Cost: opkit.PerElement(4),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			var counts [4]*tensor.Tensor
			for i, slot := range rateSlots {
				counts[i] = b.In(slot)
			}
			area, curve := orScratch[float64](b, "AUC", 1), b.Str("curve")
			return func(context.Context) error {
				area.Float64s()[0] = ratesOf(counts).Area(curve == "PR")
				return nil
			}, nil
		},
		MixesRows: opkit.Mixes,
	})
}

func inferAUCAtThresholds(s *ops.Shapes) error {
	if err := s.IsFloat("Predict"); err != nil {
		return err
	}
	if err := s.Rank("Predict", 2); err != nil {
		return err
	}
	if columns, column := s.In("Predict").Dims[1], s.Int("column"); columns == 0 || columns != program.Unknown && (column < -1 || column >= columns) {
		return s.Errorf("Predict", "a column %d", column)
	}
	if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	if d, x := s.In("Label").Dims, s.In("Predict").Dims; len(d) != 1 || !opkit.Agree(d[0], x[0]) {
		if err := checkLabelDims(s, "Label", "Predict"); err != nil {
			return err
		}
	}
	s.Set("AUC", tensor.Float64, 1)
	if err := checkRates(s); err != nil {
		return err
	}
	for _, slot := range rateSlots {
		if s.Has(slot) != s.Has("TP") {
			return s.Errorf(slot, "TP, FP, TN and FN, or none")
		}
		if s.Has(slot) {
			s.Like(slot+"Out", slot)
		} else {
			s.Set(slot+"Out", tensor.Int64, s.Int("num_thresholds"))
		}
	}
	return nil
}

// checkRates checks the attributes, and the counts that there are.
func checkRates(s *ops.Shapes) error {
	if curve := s.Str("curve"); curve != "ROC" && curve != "PR" {
		return opkit.BadAttr(s, "curve", "ROC or PR")
	}
	thresholds := s.Int("num_thresholds")
	if thresholds < 2 || thresholds > maxThresholds {
		return opkit.BadAttr(s, "num_thresholds", "2 to %d", maxThresholds)
	}
	for _, slot := range rateSlots {
		if !s.Has(slot) {
			continue
		}
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
			return err
		}
		if d := s.In(slot).Dims; len(d) != 1 || !opkit.Agree(d[0], thresholds) {
			return s.Errorf(slot, "dims [%d], one number for each threshold", thresholds)
		}
	}
	return nil
}

func bindAUCAtThresholds[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, predict, labels, area := b.Op(), b.In("Predict"), b.In("Label"), orScratch[float64](b, "AUC", 1)
	width, column, curve := int(predict.Dims()[1]), int(b.Int("column")), b.Str("curve")
	if column < 0 {
		column = width - 1
	}
	thresholds := int(b.Int("num_thresholds"))
	var before, counts [4]*tensor.Tensor
	for i, slot := range rateSlots {
		before[i], counts[i] = b.In(slot), orScratch[int64](b, slot+"Out", thresholds)
	}
	return func(context.Context) error {
		scores := tensor.Data[T](predict)
		if at := kernel.FirstNoProbability(scores); at >= 0 {
			return fault.E(fault.NotFinite, fault.On(op), fault.Var(op.In("Predict")),
				fault.Gotf("%v in row %d", scores[at], at/width), fault.Want("a probability, 0 to 1"))
		}
		rates := ratesOf(counts)
		for i, counts := range rates {
			if before[i] == nil {
				clear(counts)
			} else {
				copy(counts, before[i].Int64s())
			}
		}
		for r, label := range labels.Int64s() {
			rates.Count(float64(scores[r*width+column]), label != 0)
		}
		area.Float64s()[0] = rates.Area(curve == "PR")
		return nil
	}, nil
}

// ratesOf returns the numbers of counts, which may lie elsewhere in each step.
func ratesOf(counts [4]*tensor.Tensor) (r kernel.Rates) {
	for i, c := range counts {
		r[i] = c.Int64s()
	}
	return r
}
