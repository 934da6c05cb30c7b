package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "batch_norm",
		Doc: "Normalises each channel over the batch: Y = (X - mean)/sqrt(variance + epsilon)*Scale + Bias. In training the " +
			"statistics are those of the batch, and the moving ones become moving*momentum + batch*(1 - momentum); with is_test " +
			"or use_global_stats they are Mean and Variance, which stay as they are.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, C] or [N, C, ...]"},
			{Name: "Scale", Doc: "[C]"},
			{Name: "Bias", Doc: "[C]"},
			{Name: "Mean", Doc: "[C], moving mean"},
			{Name: "Variance", Doc: "[C], moving variance of the population"}},
		Outputs: []ops.Slot{
			{Name: "Y", Doc: "of the shape and type of X"},
			{Name: "MeanOut", Doc: "[C], the variable of Mean"},
			{Name: "VarianceOut", Doc: "[C], the variable of Variance"},
			{Name: "SavedMean", Doc: "[C], mean of the batch; zeros with given statistics", Intermediate: true},
			{Name: "SavedVariance", Doc: "[C], 1/sqrt(variance of the batch + epsilon); zeros with given statistics", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "momentum", Doc: "what the moving statistics keep in each step", Default: float32(0.9)},
			{Name: "epsilon", Doc: "added to the variance, at least 0", Default: float32(1e-5)},
			{Name: "is_test", Doc: "whether to use the moving statistics", Default: false},
			{Name: "use_global_stats", Doc: "whether to use the moving statistics in training too", Default: false},
			dataFormatAttr("data_layout")},
		Infer:   inferBatchNorm,
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("X", bindBatchNorm[float32], bindBatchNorm[float64]),
		InPlace: map[string]string{"Y": "X", "MeanOut": "Mean", "VarianceOut": "Variance"},
		State:   map[string]ops.Merge{"MeanOut": ops.MergeMean, "VarianceOut": ops.MergeMean},
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
	channels := x.Dims[1]
	for _, slot := range perChannel {
		if !ops.Compatible(s.In(slot).Dims, []int64{channels}) {
			return s.Errorf(slot, "dims [%d], one number for each channel of X", channels)
		}
	}
	s.Like("Y", "X")
	for _, slot := range []string{"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"} {
		s.Set(slot, x.DType, channels)
	}
	return nil
}

// givenStatistics reports whether the op normalises by Mean and Variance rather than by the batch.
func givenStatistics(b *ops.Binding) bool { return b.Bool("is_test") || b.Bool("use_global_stats") }

// channelsOf returns dims as [n, c, hw].
func channelsOf(dims []int64) (n, c, hw int) {
	return int(dims[0]), int(dims[1]), opkit.Count(dims[2:])
}

func bindBatchNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scale, bias, mean, variance := b.In("X"), b.In("Scale"), b.In("Bias"), b.In("Mean"), b.In("Variance")
	n, c, hw := channelsOf(x.Dims())
	y, meanOut, varianceOut := orScratch[T](b, "Y", x.Len()), orScratch[T](b, "MeanOut", c), orScratch[T](b, "VarianceOut", c)
	savedMean, savedVariance := orScratch[T](b, "SavedMean", c), orScratch[T](b, "SavedVariance", c)
	momentum, epsilon := b.Float("momentum"), b.Float("epsilon")
	given := givenStatistics(b)
	return b.Loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
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
		case len(from) == 0: // a batch without rows says nothing of the statistics
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
	savedMean, savedVariance, dy := b.In("SavedMean"), b.In("SavedVariance"), b.In("Y@GRAD")
	dx, dscale, dbias := b.Out("X@GRAD"), b.Out("Scale@GRAD"), b.Out("Bias@GRAD")
	n, c, hw := channelsOf(x.Dims())
	if x.Len() == 0 {
		n, hw = 0, 0
	}
	epsilon := b.Float("epsilon")
	given := givenStatistics(b)
	if given && (mean == nil || variance == nil) {
		return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Got("no Mean or no Variance"),
			fault.Want("both, since they are what X was normalised by"))
	}
	return b.Loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
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
