package nn

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "accuracy",
		Doc: "The share of rows whose label is among the indices that top_k found: Accuracy = Correct/Total, 0 without rows. No " +
			"gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Out", Doc: "float [N, k], values of top_k; only the type counts"},
			{Name: "Indices", Doc: "int64 [N, k], indices of top_k"},
			{Name: "Label", Doc: "int64 [N, 1]"}},
		Outputs: []ops.Slot{
			{Name: "Accuracy", Doc: "of the type of Out, dims [1]"},
			{Name: "Correct", Doc: "int32, dims [1]"},
			{Name: "Total", Doc: "int32, dims [1]"}},
		Infer: inferAccuracy,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindFloats("Out", bindAccuracy[float32], bindAccuracy[float64]),
	})
}

func inferAccuracy(s *ops.Shapes) error {
	if err := s.IsFloat("Out"); err != nil {
		return err
	}
	for _, slot := range []string{"Indices", "Label"} {
		if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
			return err
		}
	}
	if err := s.Rank("Indices", 2); err != nil {
		return err
	}
	if !ops.Compatible(s.In("Out").Dims, s.In("Indices").Dims) {
		return s.Errorf("Out", "dims %v as in Indices", s.In("Indices").Dims)
	}
	if err := checkLabelDims(s, "Label", "Indices"); err != nil {
		return err
	}
	s.Set("Accuracy", s.In("Out").DType, 1)
	s.Set("Correct", tensor.Int32, 1)
	s.Set("Total", tensor.Int32, 1)
	return nil
}

func bindAccuracy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	indices, labels := b.In("Indices"), b.In("Label")
	accuracy, correct, total := orScratch[T](b, "Accuracy", 1), orScratch[int32](b, "Correct", 1), orScratch[int32](b, "Total", 1)
	rows, k := int(indices.Dims()[0]), int(indices.Dims()[1])
	return func(context.Context) error {
		right := kernel.AccuracyCount(indices.Int64s(), labels.Int64s(), k)
		tensor.Data[T](accuracy)[0] = T(right) / T(max(rows, 1))
		correct.Int32s()[0], total.Int32s()[0] = int32(right), int32(rows)
		return nil
	}, nil
}
