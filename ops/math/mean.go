package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "mean",
		Doc:     "The mean of all elements: Out[0] = sum(X)/count(X), NaN for none.",
		Inputs:  in("X", "float"),
		Outputs: out("Out", "dims [1]"),
		Infer:   inferNumber,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("X", bindMean[float32], bindMean[float64]),
	}, opkit.Gradient{
		Doc:    "dX[i] = dOut[0]/count(X).",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindMeanGrad[float32], bindMeanGrad[float64]),
	})
}

// inferNumber gives Out one number of the type of X.
func inferNumber(s *ops.Shapes) error {
	s.Set("Out", s.In("X").DType, 1)
	return s.IsFloat("X")
}

func bindMean[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	return func(context.Context) error {
		tensor.Data[T](to)[0] = kernel.Mean(tensor.Data[T](x))
		return nil
	}, nil
}

func bindMeanGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	return b.Loops(ops.Loop{N: dx.Len(), Reads: []string{"Out@GRAD"}, Whole: []string{"Out@GRAD"}, Run: func(_, from, to int) error {
		kernel.Fill(tensor.Data[T](dx)[from:to], T(float64(tensor.Data[T](dout)[0])/float64(dx.Len())))
		return nil
	}})
}
