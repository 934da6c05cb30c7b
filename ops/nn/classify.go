package nn

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "top_k",
		Doc: "Finds the k largest elements of the last axis, in descending order; of equal ones the first. No gradient flows " +
			"through it.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"},
			{Name: "K", Doc: "one number in place of k", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "the elements, of the dims of X with a last extent of k"},
			{Name: "Indices", Doc: "int64, their indices on the last axis"}},
		Attrs: []ops.Attr{{Name: "k", Doc: "number of elements, at least 1 and at most the last extent of X", Default: int32(1), Tensor: "K", Opens: true}},
		Infer: inferTopK,
		Cost:  opkit.PerElement(2),
		Bind:  opkit.BindNumbers("X", bindTopK[float32], bindTopK[float64], bindTopK[int32], bindTopK[int64]),

		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return len(s.In("X").Dims) == 1 },
	})
}

func inferTopK(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	last := len(x.Dims) - 1
	if last < 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	k := s.Int("k")
	if k == ops.Open {
		k = program.Unknown
	} else if k < 1 || x.Dims[last] >= 0 && k > x.Dims[last] {
		return opkit.BadAttr(s, "k", "at least 1 and at most the last extent of X %v", x.Dims)
	}
	dims := slices.Concat(x.Dims[:last], []int64{k})
	s.Set("Out", x.DType, dims...)
	s.Set("Indices", tensor.Int64, dims...)
	if last > 0 {
		s.ShareLoD("Out", "X")
		s.ShareLoD("Indices", "X")
	}
	return nil
}

func bindTopK[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, k := b.In("X"), int(b.Int("k"))
	rows, width := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	values, indices := orScratch[T](b, "Out", rows*k), orScratch[int64](b, "Indices", rows*k)
	return func(context.Context) error {
		kernel.TopK(tensor.Data[T](values), indices.Int64s(), tensor.Data[T](x), rows, width, k)
		return nil
	}, nil
}

func init() {
	ops.Register(ops.Def{
		Type: "accuracy",
		Doc: "The share of rows whose label is among the indices of top_k: Accuracy = Correct/Total, 0 without rows. No " +
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

		MixesRows: opkit.Mixes,
		Totals:    []string{"Correct", "Total"},
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

func init() {
	opkit.Register(ops.Def{
		Type: "label_smooth",
		Doc: "Makes labels less certain: Out = (1 - epsilon)*X + epsilon*PriorDist, where an absent PriorDist gives every " +
			"class the same share.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float, distributions on the last axis"},
			{Name: "PriorDist", Doc: "float, one number for each class; no gradient flows to it", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   []ops.Attr{{Name: "epsilon", Doc: "weight of the prior, in [0, 1]", Default: float32(0)}},
		Infer:   inferLabelSmooth,
		Cost:    opkit.PerElement(3),
		Bind:    opkit.BindFloats("X", bindLabelSmooth[float32], bindLabelSmooth[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = (1 - epsilon)*dOut.",
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out@GRAD"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Out@GRAD", bindLabelSmoothGrad[float32], bindLabelSmoothGrad[float64]),
	})
}

func inferLabelSmooth(s *ops.Shapes) error {
	x := s.In("X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "PriorDist"); err != nil {
		return err
	}
	if e := s.Float("epsilon"); !(e >= 0 && e <= 1) {
		return opkit.BadAttr(s, "epsilon", "in [0, 1]")
	}
	last := len(x.Dims) - 1
	if last < 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	if s.Has("PriorDist") && !opkit.Agree(ops.Product(s.In("PriorDist").Dims), x.Dims[last]) {
		return s.Errorf("PriorDist", "%d elements, the classes of X", x.Dims[last])
	}
	s.Like("Out", "X")
	return nil
}

func bindLabelSmooth[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, prior, to := b.In("X"), b.In("PriorDist"), b.Out("Out")
	classes, epsilon := int(x.Dims()[len(x.Dims())-1]), T(b.Float("epsilon"))
	return func(context.Context) error {
		kernel.LabelSmooth(tensor.Data[T](to), tensor.Data[T](x), opkit.Data[T](prior), classes, epsilon)
		return nil
	}, nil
}

func bindLabelSmoothGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx, keep := b.In("Out@GRAD"), b.Out("X@GRAD"), T(1-b.Float("epsilon"))
	return func(context.Context) error {
		kernel.Scale(tensor.Data[T](dx), tensor.Data[T](dout), keep, 0, true)
		return nil
	}, nil
}
