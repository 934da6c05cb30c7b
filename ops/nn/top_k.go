package nn

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "top_k",
		Doc: "Finds the k largest elements of the last axis, in descending order; of equal ones the first. No gradient flows " +
			"through it.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "the elements, of the dims of X with a last extent of k"},
			{Name: "Indices", Doc: "int64, where on the last axis they stand"}},
		Attrs: []ops.Attr{{Name: "k", Doc: "how many, at least 1 and at most the last extent of X", Default: int32(1)}},
		Infer: inferTopK,
		Cost:  opkit.PerElement(2),
		Bind:  opkit.BindNumbers("X", bindTopK[float32], bindTopK[float64], bindTopK[int32], bindTopK[int64]),
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
	if k < 1 || x.Dims[last] >= 0 && k > x.Dims[last] {
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
