package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:      "sum",
		Doc:       "Adds tensors of one shape in the order of X: Out = X[0] + X[1] + ... Where all are sparse rows, so is Out, with the rows of all.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "numbers of one shape and type", Duplicable: true, Rows: true}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "of the shape and type of X", Rows: true}},
		Infer:     inferSum,
		Gradient:  sumGradient,
		Cost:      sumCost,
		Bind:      opkit.BindNumbers("X", bindSum[float32], bindSum[float64], bindSum[int32], bindSum[int64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

func inferSum(s *ops.Shapes) error {
	if err := s.SameType("X"); err != nil {
		return err
	}
	all := s.Ins("X")
	total := all[0]
	total.Dims = slices.Clone(total.Dims)
	for _, m := range all[1:] {
		if !ops.Compatible(total.Dims, m.Dims) {
			return s.Errorf("X", "equal dims, not also %v", m.Dims)
		}
		for i, extent := range m.Dims {
			total.Dims[i] = max(total.Dims[i], extent) // a known extent over an open one
		}
	}
	sumKind(&total, all)
	s.SetAt("Out", 0, total)
	return opkit.CheckType(s, "X", total.DType != tensor.Bool, "numbers")
}

func sumCost(s *ops.Shapes) ops.Cost {
	return ops.Cost{Flops: opkit.Size(s.In("X").Dims) * int64(len(s.Ins("X"))-1), Bytes: opkit.Bytes(s)}
}

// sumGradient copies the gradient of Out to that of every term.
func sumGradient(g *ops.Grad) ([]*program.Op, error) {
	var copies []*program.Op
	for _, to := range g.InGrad("X") {
		if to != program.Empty {
			copies = append(copies, scaleOf(g, g.OutGrad("Out"), []string{to}, 1))
		}
	}
	return copies, nil
}

func bindSum[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, terms := b.Out("Out"), b.Ins("X")
	if to.IsSelected() || slices.ContainsFunc(terms, (*tensor.Tensor).IsSelected) {
		return bindSumRows[T](b)
	}
	// Out may lie in the buffer of the first term. When that term comes again, it must still be whole.
	var apart *tensor.Tensor
	if names := b.Op().Inputs["X"]; slices.Contains(names[1:], names[0]) {
		apart = b.Scratch(to.DType(), to.Len())
	}
	return opkit.Loop(b, to.Len(), func(from, till int) {
		sum := tensor.Data[T](to)[from:till]
		if apart != nil {
			sum = tensor.Data[T](apart)[from:till]
		}
		copy(sum, tensor.Data[T](terms[0])[from:till])
		for _, t := range terms[1:] {
			kernel.Accumulate(sum, tensor.Data[T](t)[from:till])
		}
		if apart != nil {
			copy(tensor.Data[T](to)[from:till], sum)
		}
	})
}
