package nn

import (
	"github.com/edl-go/edl/fault"
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
	registerBatchNorm("batch_norm", "", nil)
	registerBatchNorm("sync_batch_norm", " The batch is the whole one, so trainers cannot divide it.", opkit.Mixes)
}

func registerBatchNorm(name, note string, mixes opkit.Mixing) {
	opkit.Register(ops.Def{
		Type: name,
		Doc: "Normalises each channel over the batch: Y = (X - mean)/sqrt(variance + epsilon)*Scale + Bias. In training the " +
			"statistics are those of the batch, and the moving ones become moving*momentum + batch*(1 - momentum); with is_test " +
			"or use_global_stats they are Mean and Variance, which stay as they are." + note,
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, C], [N, C, ...] or [N, ..., C]"},
			{Name: "Scale", Doc: "[C]"},
			{Name: "Bias", Doc: "[C]"},
			{Name: "Mean", Doc: "[C], moving mean"},
			{Name: "Variance", Doc: "[C], moving variance of the population"}},
		Outputs: []ops.Slot{
			{Name: "Y", Doc: "of the shape and type of X"},
			{Name: "MeanOut", Doc: "[C], the variable of Mean"},
			{Name: "VarianceOut", Doc: "[C], the variable of Variance"},
			{Name: "SavedMean", Doc: "[C], mean of the batch; zeros with given statistics", Intermediate: true},
			{Name: "SavedVariance", Doc: "[C], 1/sqrt(variance of the batch + epsilon); zeros with given statistics", Intermediate: true},
			{Name: "ReserveSpace", Doc: "memory of GPU kernels in Fluid since 1.7; no elements", Intermediate: true, Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "momentum", Doc: "the share of the moving statistics that each step keeps", Default: float32(0.9)},
			{Name: "epsilon", Doc: "added to the variance, at least 0", Default: float32(1e-5)},
			{Name: "is_test", Doc: "whether to use the moving statistics", Default: false},
			{Name: "use_global_stats", Doc: "whether to use the moving statistics in training too", Default: false},
			dataFormatAttr("data_layout")},
		Infer:     inferBatchNorm,
		Cost:      opkit.PerElement(8),
		Bind:      opkit.BindFloats("X", bindBatchNorm[float32], bindBatchNorm[float64]),
		MixesRows: mixes,
		InPlace:   map[string]string{"Y": "X", "MeanOut": "Mean", "VarianceOut": "Variance"},
		State:     map[string]ops.Merge{"MeanOut": ops.MergeMean, "VarianceOut": ops.MergeMean},
	}, opkit.Gradient{
		Doc: "with h = (X - mean)/sqrt(variance + epsilon) and means over the batch, dBias = sum(dY), dScale = sum(dY*h), " +
			"dX = Scale/sqrt(variance + epsilon)*(dY - mean(dY) - h*mean(dY*h)); with given statistics dX has the first term alone.",
		Inputs:  []string{"X", "Scale", "Mean", "Variance"},
		Outputs: []string{"SavedMean", "SavedVariance"},
		From:    []string{"Y"},
		Wrt:     []string{"X", "Scale", "Bias"},
		StandIn: map[string]string{"Bias": "Scale", "Mean": "Scale", "Variance": "Scale"},
		InPlace: map[string]string{"X@GRAD": "Y@GRAD"},
		Cost:    opkit.PerElement(12),
		Bind:    opkit.BindFloats("X", bindBatchNormGrad[float32], bindBatchNormGrad[float64]),
	})
}

func inferBatchNorm(s *ops.Shapes) error {
	x := s.In("X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	perChannel := []string{"Scale", "Bias", "Mean", "Variance"}
	if err := s.SameType("X", "Scale", "Bias", "Mean", "Variance"); err != nil {
		return err
	}
	if err := checkLayout(s, "data_layout"); err != nil {
		return err
	}
	if !(s.Float("epsilon") >= 0) {
		return opkit.BadAttr(s, "epsilon", "at least 0")
	}
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	channels := firstly(x.Dims, channelsLast(s, "data_layout"))[1]
	for _, slot := range perChannel {
		if !ops.Compatible(s.In(slot).Dims, []int64{channels}) {
			return s.Errorf(slot, "dims [%d], one number for each channel of X", channels)
		}
	}
	s.Like("Y", "X")
	for _, slot := range []string{"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"} {
		s.Set(slot, x.DType, channels)
	}
	s.Set("ReserveSpace", x.DType, 0)
	return nil
}

// givenStatistics reports whether the op normalises by Mean and Variance and not by the batch.
func givenStatistics(b *ops.Binding) bool { return b.Bool("is_test") || b.Bool("use_global_stats") }

// channelsOf returns dims as [n, c, hw].
func channelsOf(dims []int64) (n, c, hw int) {
	return int(dims[0]), int(dims[1]), opkit.Count(dims[2:])
}

func bindBatchNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scale, bias, mean, variance := b.In("X"), b.In("Scale"), b.In("Bias"), b.In("Mean"), b.In("Variance")
	a := &arranged[T]{b: b, last: channelsLast(b, "data_layout") && len(x.Dims()) > 2}
	n, c, hw := channelsOf(firstly(x.Dims(), a.last))
	x = a.in("X")
	y, meanOut, varianceOut := a.out("Y"), orScratch[T](b, "MeanOut", c), orScratch[T](b, "VarianceOut", c)
	if y == nil {
		y = b.Scratch(x.DType(), x.Len())
	}
	savedMean, savedVariance := orScratch[T](b, "SavedMean", c), orScratch[T](b, "SavedVariance", c)
	momentum, epsilon := b.Float("momentum"), b.Float("epsilon")
	given := givenStatistics(b)
	return a.loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
		movingMean, movingVariance := tensor.Data[T](meanOut), tensor.Data[T](varianceOut)
		copy(movingMean[first:last], tensor.Data[T](mean)[first:last])
		copy(movingVariance[first:last], tensor.Data[T](variance)[first:last])
		batchMean, batchVariance := tensor.Data[T](savedMean), tensor.Data[T](savedVariance)
		from, to := tensor.Data[T](x), tensor.Data[T](y)
		if given || len(from) == 0 {
			clear(batchMean[first:last])
			clear(batchVariance[first:last])
		}
		switch {
		case len(from) == 0: // a batch without rows does not change the statistics
		case given:
			kernel.BatchNormInfer(to, from, tensor.Data[T](scale), tensor.Data[T](bias), movingMean, movingVariance, n, c, hw, first, last, epsilon)
		default:
			kernel.BatchNormTrain(to, batchMean, batchVariance, movingMean, movingVariance, from, tensor.Data[T](scale), tensor.Data[T](bias), n, c,
				hw, first, last, momentum, epsilon)
		}
		return nil
	}})
}

func bindBatchNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scale, mean, variance := b.In("X"), b.In("Scale"), b.In("Mean"), b.In("Variance")
	savedMean, savedVariance := b.In("SavedMean"), b.In("SavedVariance")
	a := &arranged[T]{b: b, last: channelsLast(b, "data_layout") && len(x.Dims()) > 2}
	n, c, hw := channelsOf(firstly(x.Dims(), a.last))
	x = a.in("X")
	dy, dx, dscale, dbias := a.in("Y@GRAD"), a.out("X@GRAD"), b.Out("Scale@GRAD"), b.Out("Bias@GRAD")
	if x.Len() == 0 {
		n, hw = 0, 0
	}
	epsilon := b.Float("epsilon")
	given := givenStatistics(b)
	if given && (mean == nil || variance == nil) {
		return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Got("no Mean or no Variance"),
			fault.Want("both, which the forward op has used"))
	}
	return a.loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
		gx, gscale, gbias := opkit.Data[T](dx), opkit.Data[T](dscale), opkit.Data[T](dbias)
		from, factor, g := tensor.Data[T](x), tensor.Data[T](scale), tensor.Data[T](dy)
		if given {
			kernel.BatchNormInferGrad(gx, gscale, gbias, from, factor, tensor.Data[T](mean), tensor.Data[T](variance), g, n, c, hw, first, last, epsilon)
			return nil
		}
		kernel.BatchNormGrad(gx, gscale, gbias, from, factor, tensor.Data[T](savedMean), tensor.Data[T](savedVariance), g, n, c, hw, first, last)
		return nil
	}})
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
