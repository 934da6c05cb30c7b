package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// orScratch returns the output of a slot, or n elements of scratch memory if nobody wants the output.
func orScratch[T tensor.Element](b *ops.Binding, slot string, n int) *tensor.Tensor {
	if t := b.Out(slot); t != nil {
		return t
	}
	return b.Scratch(tensor.Of[T](), n)
}

func init() {
	opkit.Register(ops.Def{
		Type: "layer_norm",
		Doc: "Normalises each row by its own statistics: Y = (X - Mean)/sqrt(Variance + epsilon)*Scale + Bias. A row has the " +
			"axes from begin_norm_axis on.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float, rank 2 or more"},
			{Name: "Scale", Doc: "one number for each place in a row; ones when absent", Dispensable: true},
			{Name: "Bias", Doc: "one number for each place in a row; zeros when absent", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Y", Doc: "of the shape and type of X"},
			{Name: "Mean", Doc: "one number for each row", Intermediate: true},
			{Name: "Variance", Doc: "one number for each row, of the population", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "epsilon", Doc: "added to the variance, at least 0", Default: float32(1e-5)},
			{Name: "begin_norm_axis", Doc: "first axis of a row, at least 1", Default: int32(1)}},
		Infer: inferLayerNorm,
		Cost:  opkit.PerElement(8),
		Bind:  opkit.BindFloats("X", bindLayerNorm[float32], bindLayerNorm[float64]),

		MixesRows: opkit.RowsOnlyIn("X"),
		InPlace:   map[string]string{"Y": "X"},
	}, opkit.Gradient{
		Doc: "with h = (X - Mean)/sqrt(Variance + epsilon), g = dY*Scale and means over a row, dBias = sum(dY), " +
			"dScale = sum(dY*h), dX = (g - mean(g) - h*mean(g*h))/sqrt(Variance + epsilon).",
		Inputs:  []string{"X", "Scale", "Bias"},
		Outputs: []string{"Mean", "Variance"},
		From:    []string{"Y"},
		Wrt:     []string{"X", "Scale", "Bias"},
		StandIn: map[string]string{"Bias": "Scale"},
		InPlace: map[string]string{"X@GRAD": "Y@GRAD"},
		Cost:    opkit.PerElement(12),
		Bind:    opkit.BindFloats("X", bindLayerNormGrad[float32], bindLayerNormGrad[float64]),
	})
}

// checkNorm checks the types and the epsilon of an op that normalises X and applies Scale and Bias.
func checkNorm(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if !(s.Float("epsilon") >= 0) {
		return opkit.BadAttr(s, "epsilon", "at least 0")
	}
	return s.SameType("X", "Scale", "Bias")
}

func inferLayerNorm(s *ops.Shapes) error {
	x := s.In("X")
	if err := checkNorm(s); err != nil {
		return err
	}
	axis := s.Int("begin_norm_axis")
	if axis < 1 || axis >= int64(len(x.Dims)) {
		return opkit.BadAttr(s, "begin_norm_axis", "at least 1 and less than the rank of X %v", x.Dims)
	}
	rows, width := opkit.MatrixDims(x.Dims, int(axis))
	for _, slot := range []string{"Scale", "Bias"} {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, []int64{width}) {
			return s.Errorf(slot, "dims [%d], one number for each place in a row of X %v", width, x.Dims)
		}
	}
	s.Like("Y", "X")
	s.Set("Mean", x.DType, rows)
	s.Set("Variance", x.DType, rows)
	return nil
}

func bindLayerNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scale, bias := b.In("X"), b.In("Scale"), b.In("Bias")
	rows, width := opkit.Matrix(x.Dims(), int(b.Int("begin_norm_axis")))
	y, mean, variance := orScratch[T](b, "Y", x.Len()), orScratch[T](b, "Mean", rows), orScratch[T](b, "Variance", rows)
	epsilon := b.Float("epsilon")
	return b.Loops(ops.Loop{N: rows, Whole: []string{"Scale", "Bias"}, Run: func(_, from, to int) error {
		kernel.LayerNorm(opkit.Owned[T](y, from, to, rows), tensor.Data[T](mean)[from:to], tensor.Data[T](variance)[from:to],
			opkit.Owned[T](x, from, to, rows),
			opkit.Data[T](scale), opkit.Data[T](bias), to-from, width, epsilon)
		return nil
	}})
}

func bindLayerNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scale, mean, variance, dy := b.In("X"), b.In("Scale"), b.In("Mean"), b.In("Variance"), b.In("Y@GRAD")
	dx, dscale, dbias := b.Out("X@GRAD"), b.Out("Scale@GRAD"), b.Out("Bias@GRAD")
	rows, width := opkit.Matrix(x.Dims(), int(b.Int("begin_norm_axis")))
	epsilon := b.Float("epsilon")
	var loops []ops.Loop
	if dscale != nil || dbias != nil { // first, because X@GRAD may share the buffer of Y@GRAD
		reads := []string{"X", "Mean", "Variance", "Y@GRAD"}
		loops = append(loops, ops.Loop{N: width, Apart: true, Reads: reads, Whole: reads, Writes: []string{"Scale@GRAD", "Bias@GRAD"},
			Run: func(_, from, to int) error {
				kernel.LayerNormParamGrad(opkit.Data[T](dscale), opkit.Data[T](dbias), tensor.Data[T](x), tensor.Data[T](mean), tensor.Data[T](variance),
					tensor.Data[T](dy),
					rows, width, from, to, epsilon)
				return nil
			}})
	}
	if dx != nil {
		reads := []string{"X", "Scale", "Mean", "Variance", "Y@GRAD"}
		loops = append(loops, ops.Loop{N: rows, Reads: reads, Whole: []string{"Scale"}, Writes: []string{"X@GRAD"}, Run: func(_, from, to int) error {
			kernel.LayerNormGrad(opkit.Owned[T](dx, from, to, rows), opkit.Owned[T](x, from, to, rows), opkit.Data[T](scale), tensor.Data[T](mean)[from:to],
				tensor.Data[T](variance)[from:to],
				opkit.Owned[T](dy, from, to, rows), to-from, width, epsilon)
			return nil
		}})
	}
	return b.Loops(loops...)
}
