package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "cos_sim",
		Doc:  "The cosine of the angle between each row of X and that of Y: Out = sum(X.Y)/(|X||Y|). One row of Y is compared with all rows of X. It is 0 for a row of zeros, where Fluid computes NaN.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float, rank 2 or more; a row is X[i]"},
			{Name: "Y", Doc: "as X, or with one row"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[rows, 1]"},
			{Name: "XNorm", Doc: "[rows, 1]: |X|", Intermediate: true},
			{Name: "YNorm", Doc: "[rows of Y, 1]: |Y|", Intermediate: true}},
		Infer: inferCosSim,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			if y := s.In("Y").Dims; len(y) > 0 && y[0] == 1 && s.In("X").Dims[0] != 1 {
				return divided("Y")
			}
			return divided("X") != divided("Y")
		},
		Cost: opkit.PerElement(6),
		Bind: opkit.BindFloats("X", bindCosSim[float32], bindCosSim[float64]),
	}, opkit.Gradient{
		Doc:     "dX = dOut*(Y/(|X||Y|) - Out*X/|X|**2), and dY likewise, summed over the rows that share one.",
		Inputs:  []string{"X", "Y"},
		Outputs: []string{"Out", "XNorm", "YNorm"},
		From:    []string{"Out"},
		Wrt:     []string{"X", "Y"},
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("X", bindCosSimGrad[float32], bindCosSimGrad[float64]),
	})
}

func inferCosSim(s *ops.Shapes) error {
	x, y := s.In("X"), s.In("Y")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	if len(x.Dims) < 2 || len(y.Dims) != len(x.Dims) || !ops.Compatible(x.Dims[1:], y.Dims[1:]) || !opkit.Agree(x.Dims[0], y.Dims[0]) && y.Dims[0] != 1 {
		return s.Errorf("Y", "dims %v as X, of rank 2 or more, or one row of it", x.Dims)
	}
	s.Set("Out", x.DType, x.Dims[0], 1)
	s.Set("XNorm", x.DType, x.Dims[0], 1)
	s.Set("YNorm", x.DType, y.Dims[0], 1)
	s.ShareLoD("Out", "X")
	return nil
}

// sharedRow returns row i of y, the only one if there is one for all.
func sharedRow[T tensor.Float](y []T, i, rows, width int) (row []T, at int) {
	if rows == 1 {
		i = 0
	}
	return y[i*width : (i+1)*width], i
}

func bindCosSim[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y := b.In("X"), b.In("Y")
	rows, width := opkit.Matrix(x.Dims(), 1)
	shared := int(y.Dims()[0])
	out, normX, normY := orScratch[T](b, "Out", rows), orScratch[T](b, "XNorm", rows), orScratch[T](b, "YNorm", shared)
	return b.Loops(ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			row, at := sharedRow(tensor.Data[T](y), i, shared, width)
			cos, lengthX, lengthY := kernel.CosSim(tensor.Data[T](x)[i*width:(i+1)*width], row)
			tensor.Data[T](out)[i], tensor.Data[T](normX)[i] = cos, lengthX
			if shared > 1 || i == 0 {
				tensor.Data[T](normY)[at] = lengthY
			}
		}
		return nil
	}})
}

func bindCosSimGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, out, normX, normY, dout := b.In("X"), b.In("Y"), b.In("Out"), b.In("XNorm"), b.In("YNorm"), b.In("Out@GRAD")
	dx, dy := b.Out("X@GRAD"), b.Out("Y@GRAD")
	rows, width := opkit.Matrix(x.Dims(), 1)
	shared := int(y.Dims()[0])
	one := func(i int, toX, toY []T, add bool) {
		row := tensor.Data[T](x)[i*width : (i+1)*width]
		other, at := sharedRow(tensor.Data[T](y), i, shared, width)
		dcos, cos, lengthX, lengthY := tensor.Data[T](dout)[i], tensor.Data[T](out)[i], tensor.Data[T](normX)[i], tensor.Data[T](normY)[at]
		kernel.CosSimGrad(toX, row, other, dcos, cos, lengthX, lengthY, false)
		kernel.CosSimGrad(toY, other, row, dcos, cos, lengthY, lengthX, add)
	}
	var loops []ops.Loop
	if dx != nil {
		loops = append(loops, ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
			for i := from; i < to; i++ {
				one(i, tensor.Data[T](dx)[i*width:(i+1)*width], nil, false)
			}
			return nil
		}})
	}
	if dy != nil && (shared > 1 || rows == 1) {
		loops = append(loops, ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
			for i := from; i < to; i++ {
				one(i, nil, tensor.Data[T](dy)[i*width:(i+1)*width], false)
			}
			return nil
		}})
	} else if dy != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			clear(tensor.Data[T](dy))
			for i := range rows {
				one(i, nil, tensor.Data[T](dy), true)
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}
