package nn

import (
	"context"
	"errors"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "prelu",
		Doc:  "A leaky relu whose slope is trained (He et al. 2015): Out = X above 0, else Alpha*X.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float, rank 1 or more; with mode channel rank 2 or more"},
			{Name: "Alpha", Doc: "of the type of X: one number, one for each channel, or one for each element of a row"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs: []ops.Attr{{Name: "mode", Doc: "what has a number of its own: all together, a channel (axis 1), or an element of a row", Default: "all",
			Check: func(op *program.Op) error {
				switch mode, _ := op.Str("mode"); mode {
				case "all", "channel", "element":
					return nil
				}
				return errors.New("all, channel or element")
			}}},
		Infer: inferPrelu,
		Cost:  opkit.PerElement(2),
		Bind:  opkit.BindFloats("X", bindPrelu[float32], bindPrelu[float64]),

		MixesRows: opkit.RowsOnlyIn("X"),
	}, opkit.Gradient{
		Doc:    "dX = dOut where X > 0, else Alpha*dOut; dAlpha is the sum of X*dOut where X is not above 0.",
		Inputs: []string{"X", "Alpha"},
		Wrt:    []string{"X", "Alpha"},
		Cost:   opkit.PerElement(4),
		Bind:   opkit.BindFloats("X", bindPreluGrad[float32], bindPreluGrad[float64]),
	})
}

func inferPrelu(s *ops.Shapes) error {
	if err := s.SameType("X", "Alpha"); err != nil {
		return err
	}
	x, factors := s.In("X"), int64(1)
	switch s.Str("mode") {
	case "channel":
		if len(x.Dims) < 2 {
			return s.Errorf("X", "rank 2 or more")
		}
		factors = x.Dims[1]
	case "element":
		if len(x.Dims) < 1 {
			return s.Errorf("X", "rank 1 or more")
		}
		factors = ops.Product(x.Dims[1:])
	}
	if !opkit.Agree(ops.Product(s.In("Alpha").Dims), factors) {
		return s.Errorf("Alpha", "%d numbers for X %v in mode %s", factors, x.Dims, s.Str("mode"))
	}
	s.Like("Out", "X")
	return s.IsFloat("X")
}

// preluInner returns how many neighbouring elements share a factor.
func preluInner(b *ops.Binding, x *tensor.Tensor) int {
	switch b.Str("mode") {
	case "channel":
		return opkit.Count(x.Dims()[2:])
	case "element":
		return 1
	}
	return max(1, x.Len())
}

func bindPrelu[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, alpha, to := b.In("X"), b.In("Alpha"), b.Out("Out")
	inner := preluInner(b, x)
	return b.Loops(ops.Loop{N: x.Len(), Whole: []string{"Alpha"}, Run: func(_, from, till int) error {
		kernel.Prelu(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till], tensor.Data[T](alpha), from, inner)
		return nil
	}})
}

func bindPreluGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, alpha, dout, dx, dalpha := b.In("X"), b.In("Alpha"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Alpha@GRAD")
	inner := preluInner(b, x)
	var sums *tensor.Tensor
	if dalpha != nil {
		sums = b.Scratch(tensor.Float64, dalpha.Len())
	}
	return func(context.Context) error {
		if dx != nil {
			kernel.PreluGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](alpha), tensor.Data[T](dout), 0, inner)
		}
		if dalpha != nil {
			kernel.PreluAlphaGrad(tensor.Data[T](dalpha), tensor.Data[T](x), tensor.Data[T](dout), sums.Float64s(), inner)
		}
		return nil
	}, nil
}
