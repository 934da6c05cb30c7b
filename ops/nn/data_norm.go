package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "data_norm",
		Doc: "Normalises each column by sums over all data so far: Y = (X - mean)*scale, mean = BatchSum/BatchSize and scale = sqrt(BatchSize/BatchSquareSum). " +
			"The op itself does not change the sums.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, C]"},
			{Name: "BatchSize", Doc: "[C]: the number of rows so far"},
			{Name: "BatchSum", Doc: "[C]: their sum"},
			{Name: "BatchSquareSum", Doc: "[C]: the sum of (X - mean)**2"}},
		Outputs: []ops.Slot{
			{Name: "Y", Doc: "of the shape and type of X"},
			{Name: "Means", Doc: "[C]", Intermediate: true},
			{Name: "Scales", Doc: "[C]", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "epsilon", Doc: "what the gradient adds to BatchSquareSum for each row, in [0, 0.001]", Default: float32(1e-4)},
			dataFormatAttr("data_layout")},
		Infer:     inferDataNorm,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("X", bindDataNorm[float32], bindDataNorm[float64]),
		MixesRows: opkit.RowsOnlyIn("X"),
		InPlace:   map[string]string{"Y": "X"},
	}, opkit.Gradient{
		Doc: "dX = dY*Scales. In place of derivatives, those of the sums are what the batch adds to them: dBatchSize = N, dBatchSum = sum(X) and " +
			"dBatchSquareSum = sum((X - mean)**2 + epsilon). The loss does not scale them, but a mean over trainers does.",
		Inputs:  []string{"X", "BatchSize", "BatchSum", "BatchSquareSum"},
		Outputs: []string{"Means", "Scales"},
		Wrt:     []string{"X", "BatchSize", "BatchSum", "BatchSquareSum"},
		StandIn: map[string]string{"BatchSize": "Scales", "BatchSum": "Scales", "BatchSquareSum": "Scales"},
		Cost:    opkit.PerElement(5),
		Bind:    opkit.BindFloats("X", bindDataNormGrad[float32], bindDataNormGrad[float64]),
	})
}

func inferDataNorm(s *ops.Shapes) error {
	sums := []string{"BatchSize", "BatchSum", "BatchSquareSum"}
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType(append([]string{"X"}, sums...)...); err != nil {
		return err
	}
	if err := checkLayout(s, "data_layout"); err != nil {
		return err
	}
	if e := s.Float("epsilon"); !(e >= 0 && float32(e) <= 0.001) {
		return opkit.BadAttr(s, "epsilon", "a number in [0, 0.001]")
	}
	if err := s.Rank("X", 2); err != nil {
		return err
	}
	columns := s.In("X").Dims[1]
	for _, slot := range sums {
		if !ops.Compatible(s.In(slot).Dims, []int64{columns}) {
			return s.Errorf(slot, "dims [%d], one number for each column of X", columns)
		}
	}
	s.Like("Y", "X")
	s.Set("Means", s.In("X").DType, columns)
	s.Set("Scales", s.In("X").DType, columns)
	return nil
}

func bindDataNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, size, sum, square, y := b.In("X"), b.In("BatchSize"), b.In("BatchSum"), b.In("BatchSquareSum"), b.Out("Y")
	rows, columns := opkit.Matrix(x.Dims(), 1)
	means, scales := orScratch[T](b, "Means", columns), orScratch[T](b, "Scales", columns)
	loops := []ops.Loop{{N: 1, Apart: true, Run: func(int, int, int) error {
		kernel.DataNormStatistics(tensor.Data[T](means), tensor.Data[T](scales), tensor.Data[T](size), tensor.Data[T](sum), tensor.Data[T](square))
		return nil
	}}}
	if y != nil {
		loops = append(loops, ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
			for i := from; i < to; i++ {
				kernel.DataNorm(tensor.Data[T](y)[i*columns:][:columns], tensor.Data[T](x)[i*columns:][:columns], tensor.Data[T](means), tensor.Data[T](scales))
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}

func bindDataNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, means, scales, dy := b.In("X"), b.In("Means"), b.In("Scales"), b.In("Y@GRAD")
	dx, dsize, dsum, dsquare := b.Out("X@GRAD"), b.Out("BatchSize@GRAD"), b.Out("BatchSum@GRAD"), b.Out("BatchSquareSum@GRAD")
	rows, columns := opkit.Matrix(x.Dims(), 1)
	epsilon := b.Float("epsilon")
	var loops []ops.Loop
	if dx != nil {
		loops = append(loops, ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
			kernel.Mul(tensor.Data[T](dx)[from*columns:to*columns], tensor.Data[T](dy)[from*columns:to*columns], tensor.Data[T](scales), to-from, columns, 1)
			return nil
		}})
	}
	if dsize != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			kernel.Fill(tensor.Data[T](dsize), T(rows))
			return nil
		}})
	}
	if dsum != nil || dsquare != nil {
		sum, square := orScratch[T](b, "BatchSum@GRAD", columns), orScratch[T](b, "BatchSquareSum@GRAD", columns)
		loops = append(loops, ops.Loop{N: columns, Apart: true, Run: func(_, from, to int) error {
			kernel.DataNormSums(tensor.Data[T](sum), tensor.Data[T](square), tensor.Data[T](x), tensor.Data[T](means), from, to, epsilon)
			return nil
		}})
	}
	return b.Loops(loops...)
}
