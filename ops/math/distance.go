package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:   "squared_l2_distance",
		Doc:    "The squared distances of rows: Out[i] = sum over j of (X[i, j] - Y[i, j])**2. A Y of one row meets every row of X.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float, rank 2 or more; all axes but the first are one row"}, {Name: "Y", Doc: "of the type of X, as many rows or one"}},
		Outputs: []ops.Slot{{Name: "sub_result", Doc: "X - Y, [N, D]", Intermediate: true},
			{Name: "Out", Doc: "[N, 1], of the type of X"}},
		Infer: func(s *ops.Shapes) error {
			x, y := s.In("X"), s.In("Y").Dims
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			if err := s.SameType("X", "Y"); err != nil {
				return err
			}
			if len(x.Dims) < 2 {
				return s.Errorf("X", "rank 2 or more")
			}
			width := ops.Product(x.Dims[1:])
			if len(y) != len(x.Dims) || !opkit.Agree(y[0], x.Dims[0]) && y[0] != 1 || !opkit.Agree(ops.Product(y[1:]), width) {
				return s.Errorf("Y", "rows of %d elements, as many as X %v or one", width, x.Dims)
			}
			s.Set("sub_result", x.DType, x.Dims[0], width)
			s.Set("Out", x.DType, x.Dims[0], 1)
			s.ShareLoD("Out", "X")
			return nil
		},
		Cost: opkit.PerElement(3),
		Bind: opkit.BindFloats("X", bindDistance[float32], bindDistance[float64]),

		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			y := s.In("Y").Dims
			return !divided("X") || divided("Y") != (len(y) > 0 && y[0] != 1)
		},
	}, opkit.Gradient{
		Doc: "dX = 2*dOut*(X - Y), dY = -dX, summed over all rows where Y has one.", Inputs: []string{"X", "Y"}, From: []string{"Out"}, Wrt: []string{"X", "Y"},
		Cost: opkit.PerElement(3),
		Bind: opkit.BindFloats("X", bindDistanceGrad[float32], bindDistanceGrad[float64]),
	})
}

// rowOf returns row i of a matrix, or its only row.
func rowOf[T tensor.Float](t *tensor.Tensor, i, width int) []T {
	all := tensor.Data[T](t)
	if len(all) == width {
		return all
	}
	return all[i*width : (i+1)*width]
}

func bindDistance[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to, sub := b.In("X"), b.In("Y"), b.Out("Out"), b.Out("sub_result")
	rows, width := opkit.Matrix(x.Dims(), 1)
	if sub == nil {
		sub = b.Scratch(tensor.Of[T](), rows*width)
	}
	return b.Loops(ops.Loop{N: rows, Whole: []string{"Y"}, Run: func(_, from, till int) error {
		differences := tensor.Data[T](sub)
		for i := from; i < till; i++ {
			kernel.Sub(differences[i*width:(i+1)*width], tensor.Data[T](x)[i*width:(i+1)*width], rowOf[T](y, i, width), 1, width, 1)
		}
		if to != nil {
			kernel.DotRows(tensor.Data[T](to), differences, differences, width, from, till)
		}
		return nil
	}})
}

func bindDistanceGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx, dy := b.In("X"), b.In("Y"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	rows, width := opkit.Matrix(x.Dims(), 1)
	slope := b.Scratch(tensor.Of[T](), width)
	return b.Loops(ops.Loop{N: 1, Run: func(int, int, int) error {
		row := tensor.Data[T](slope)
		clear(opkit.Data[T](dy))
		for i := range rows {
			kernel.Sub(row, tensor.Data[T](x)[i*width:(i+1)*width], rowOf[T](y, i, width), 1, width, 1)
			kernel.Scale(row, row, 2*tensor.Data[T](dout)[i], 0, true)
			if dx != nil {
				copy(tensor.Data[T](dx)[i*width:(i+1)*width], row)
			}
			if dy != nil {
				kernel.Axpy(rowOf[T](dy, i, width), row, -1)
			}
		}
		return nil
	}})
}
