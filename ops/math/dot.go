package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "dot",
		Doc:     "The inner products of rows: Out[i] = sum over j of X[i, j]*Y[i, j].",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, rank 1 or 2"}, {Name: "Y", Doc: "of the shape and type of X"}},
		Outputs: out("Out", "of the dims of X with a last extent of 1"),
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if n := len(m.Dims); n != 1 && n != 2 {
				return s.Errorf("X", "rank 1 or 2")
			}
			if err := opkit.SameShape(s, "X", "Y"); err != nil {
				return err
			}
			m.Dims = slices.Concat(m.Dims[:len(m.Dims)-1], []int64{1})
			if len(m.Dims) == 1 {
				m = m.WithoutLoD()
			}
			s.SetAt("Out", 0, m)
			return opkit.FloatSoFar(s, "X")
		},
		Cost: opkit.PerElement(2),
		Bind: opkit.BindFloats("X", bindDot[float32], bindDot[float64]),
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return len(s.In("X").Dims) < 2 || allDivided(s, divided)
		},
	}, opkit.Gradient{
		Doc: "dX[i, j] = dOut[i]*Y[i, j], dY[i, j] = dOut[i]*X[i, j].", Inputs: []string{"X", "Y"}, Wrt: []string{"X", "Y"}, Cost: opkit.PerElement(2),
		Bind: opkit.BindFloats("X", bindDotGrad[float32], bindDotGrad[float64]),
	})
}

func bindDot[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	width := x.Len() / to.Len()
	return b.Loops(ops.Loop{N: to.Len(), Run: func(_, from, till int) error {
		kernel.DotRows(tensor.Data[T](to), tensor.Data[T](x), tensor.Data[T](y), width, from, till)
		return nil
	}})
}

func bindDotGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout := b.In("X"), b.In("Y"), b.In("Out@GRAD")
	width := x.Len() / dout.Len()
	var loops []ops.Loop
	for slot, other := range map[string]*tensor.Tensor{"X@GRAD": y, "Y@GRAD": x} {
		if dx := b.Out(slot); dx != nil {
			loops = append(loops, ops.Loop{N: dout.Len(), Writes: []string{slot}, Run: func(_, from, till int) error {
				kernel.DotRowsGrad(tensor.Data[T](dx), tensor.Data[T](other), tensor.Data[T](dout), width, from, till)
				return nil
			}})
		}
	}
	return b.Loops(loops...)
}
