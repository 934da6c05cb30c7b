package nn

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "precision_recall",
		Doc: "Precision, recall and F1 of classes. Of a class, a row is a true positive (TP) if prediction and label are the class, a false positive (FP) if only the prediction is, a false " +
			"negative (FN) if only the label is, else a true negative (TN). Precision is TP/(TP + FP) and recall TP/(TP + FN), 1 where both are 0, and F1 2*P*R/(P + R). No " +
			"gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "MaxProbs", Doc: "float [N, 1], the probability of the prediction, which is not read"},
			{Name: "Indices", Doc: "int32 [N, 1], the class that is predicted"},
			{Name: "Labels", Doc: "int32 [N, 1], the true class"},
			{Name: "Weights", Doc: "of the type of MaxProbs [N, 1], what a row counts, else 1", Dispensable: true},
			{Name: "StatesInfo", Doc: "of the type of MaxProbs [class_number, 4]: TP, FP, TN and FN of all rows before this step", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "BatchMetrics", Doc: "float64 [6]: the means over classes of precision and recall, the F1 of these, and precision, recall and F1 of the sums over classes"},
			{Name: "AccumMetrics", Doc: "likewise of all rows so far"},
			{Name: "AccumStatesInfo", Doc: "the variable of StatesInfo"}},
		Attrs:     precisionAttrs,
		Infer:     inferPrecisionRecall,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("MaxProbs", bindPrecisionRecall[float32], bindPrecisionRecall[float64]),
		MixesRows: opkit.Mixes,
		InPlace:   map[string]string{"AccumStatesInfo": "StatesInfo"},
		State:     map[string]ops.Merge{"AccumStatesInfo": ops.MergeSum},
		Recounts:  &ops.Recount{Type: "precision_recall_of_counts", Out: "AccumMetrics", Counts: map[string]string{"StatesInfo": "AccumStatesInfo"}},
	})
	ops.Register(ops.Def{
		Type:    "precision_recall_of_counts",
		Doc:     "Precision, recall and F1 of the rows that precision_recall has counted. No gradient flows through it.",
		Inputs:  []ops.Slot{{Name: "StatesInfo", Doc: "float [class_number, 4], as AccumStatesInfo of precision_recall"}},
		Outputs: []ops.Slot{{Name: "AccumMetrics", Doc: "float64 [6], as of precision_recall"}},
		Attrs:   precisionAttrs,
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("StatesInfo"); err != nil {
				return err
			}
			if classes := s.Int("class_number"); !ops.Compatible(s.In("StatesInfo").Dims, []int64{classes, 4}) {
				return s.Errorf("StatesInfo", "dims [%d 4]", classes)
			}
			s.Set("AccumMetrics", tensor.Float64, 6)
			return nil
		},
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("StatesInfo", bindPrecisionOfCounts[float32], bindPrecisionOfCounts[float64]),
		MixesRows: opkit.Mixes,
	})
}

func bindPrecisionOfCounts[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	counts, all := b.In("StatesInfo"), orScratch[float64](b, "AccumMetrics", 6)
	return func(context.Context) error {
		metrics(all.Float64s(), tensor.Data[T](counts))
		return nil
	}, nil
}

// precisionAttrs are those of precision_recall and of what reads its counts.
var precisionAttrs = []ops.Attr{{Name: "class_number", Doc: "number of classes", Kind: int32(0), Check: func(op *program.Op) error {
	if n, ok := op.Int("class_number"); ok && (n < 1 || n > mostSamples) {
		return errors.New("1 to 1048576 classes")
	}
	return nil
}}}

func inferPrecisionRecall(s *ops.Shapes) error {
	if err := s.IsFloat("MaxProbs"); err != nil {
		return err
	}
	if err := s.SameType("MaxProbs", "Weights", "StatesInfo"); err != nil {
		return err
	}
	x, classes := s.In("MaxProbs"), s.Int("class_number")
	for _, slot := range []string{"MaxProbs", "Indices", "Labels", "Weights"} {
		if dims := s.In(slot).Dims; s.Has(slot) && (len(dims) != 2 || !opkit.Agree(dims[0], x.Dims[0]) || !opkit.Agree(dims[1], 1)) {
			return s.Errorf(slot, "dims [N, 1]")
		}
	}
	for _, slot := range []string{"Indices", "Labels"} {
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int32, "int32"); err != nil {
			return err
		}
	}
	if s.Has("StatesInfo") && !ops.Compatible(s.In("StatesInfo").Dims, []int64{classes, 4}) {
		return s.Errorf("StatesInfo", "dims [%d 4]", classes)
	}
	s.Set("BatchMetrics", tensor.Float64, 6)
	s.Set("AccumMetrics", tensor.Float64, 6)
	s.Set("AccumStatesInfo", x.DType, classes, 4)
	return nil
}

func bindPrecisionRecall[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, found, label, weights, before := b.Op(), b.In("Indices"), b.In("Labels"), b.In("Weights"), b.In("StatesInfo")
	classes := int(b.Int("class_number"))
	batch, all := orScratch[float64](b, "BatchMetrics", 6), orScratch[float64](b, "AccumMetrics", 6)
	after, counts := orScratch[T](b, "AccumStatesInfo", 4*classes), b.Scratch(tensor.Of[T](), 4*classes)
	return func(context.Context) error {
		c := tensor.Data[T](counts)
		clear(c)
		total := T(0)
		for i, l := range label.Int32s() {
			f := found.Int32s()[i]
			for k, class := range [...]int32{f, l} {
				if class < 0 || int(class) >= classes {
					slot := [...]string{"Indices", "Labels"}[k]
					return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In(slot)), fault.Gotf("class %d in row %d", class, i), fault.Wantf("0 to %d", classes-1))
				}
			}
			w := T(1)
			if weights != nil {
				w = tensor.Data[T](weights)[i]
			}
			total += w
			if f == l {
				c[4*f] += w
			} else {
				c[4*f+1] += w
				c[4*l+3] += w
			}
		}
		for k := 0; k < len(c); k += 4 {
			c[k+2] = total - c[k] - c[k+1] - c[k+3]
		}
		metrics(batch.Float64s(), c)
		if before != nil {
			for k, v := range tensor.Data[T](before) {
				c[k] += v
			}
		}
		copy(tensor.Data[T](after), c)
		metrics(all.Float64s(), c)
		return nil
	}, nil
}

// metrics computes what precision_recall says of the counts TP, FP, TN and FN of classes.
func metrics[T tensor.Float](out []float64, counts []T) {
	share := func(right, wrong float64) float64 {
		if right > 0 || wrong > 0 {
			return right / (right + wrong)
		}
		return 1
	}
	f1 := func(p, r float64) float64 {
		if p > 0 || r > 0 {
			return 2 * p * r / (p + r)
		}
		return 0
	}
	var precision, recall, tp, fp, fn float64
	for k := 0; k < len(counts); k += 4 {
		a, b, c := float64(counts[k]), float64(counts[k+1]), float64(counts[k+3])
		precision, recall = precision+share(a, b), recall+share(a, c)
		tp, fp, fn = tp+a, fp+b, fn+c
	}
	n := float64(len(counts) / 4)
	precision, recall = precision/n, recall/n
	micro, sensitivity := share(tp, fp), share(tp, fn)
	out[0], out[1], out[2] = precision, recall, f1(precision, recall)
	out[3], out[4], out[5] = micro, sensitivity, f1(micro, sensitivity)
}
