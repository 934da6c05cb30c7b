package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "sequence_softmax",
		Doc:     "Computes the softmax over the rows of each sequence of the innermost LoD level: Out[t] = e**X[t] / sum of e**X over the sequence.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [rows] or [rows, 1], sequences"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if len(x.Dims) < 1 || !ops.Compatible(x.Dims[1:], ones(len(x.Dims)-1)) {
				return s.Errorf("X", "one column")
			}
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			if _, err := s.CountSequences("X"); err != nil {
				return err
			}
			s.Set("Out", x.DType, append([]int64{x.Dims[0]}, ones(len(x.Dims)-1)...)...)
			s.ShareLoD("Out", "X")
			return nil
		},
		Cost:    opkit.PerElement(10),
		Bind:    opkit.BindFloats("X", bindSequenceSoftmax[float32], bindSequenceSoftmax[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = Out.(dOut - sum of Out.dOut over the sequence).",
		Outputs: []string{"Out"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out"},
		Cost:    opkit.PerElement(4),
		Bind:    opkit.BindFloats("Out", bindSequenceSoftmaxGrad[float32], bindSequenceSoftmaxGrad[float64]),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	})
}

// ones returns n extents of 1.
func ones(n int) []int64 {
	dims := make([]int64, n)
	for i := range dims {
		dims[i] = 1
	}
	return dims
}

func bindSequenceSoftmax[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out := batchIn(b, "X"), b.Out("Out")
	return b.Loops(x.each(func(_, from, to int) {
		kernel.Softmax(tensor.Data[T](out)[from:to], tensor.Data[T](x.value)[from:to], 1, to-from)
	}))
}

func bindSequenceSoftmaxGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	out, dout, dx := batchIn(b, "Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	return b.Loops(out.each(func(_, from, to int) {
		kernel.SoftmaxGrad(tensor.Data[T](dx)[from:to], tensor.Data[T](out.value)[from:to], tensor.Data[T](dout)[from:to], 1, to-from)
	}))
}
