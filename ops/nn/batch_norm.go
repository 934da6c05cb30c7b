package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerBatchNorm("batch_norm", "", func(_ *ops.Shapes, divided func(string) bool) bool { return divided("MomentumTensor") })
	registerBatchNorm("sync_batch_norm", " The batch is the whole one, so trainers cannot divide it.", opkit.Mixes)
}

func registerBatchNorm(name, note string, mixes opkit.Mixing) {
	opkit.Register(ops.Def{
		Type: name,
		Doc: "Normalises each channel over the batch: Y = (X - mean)/sqrt(variance + epsilon)*Scale + Bias. In training the " +
			"statistics are those of the batch, and the moving ones become moving*momentum + batch*(1 - momentum); with use_global_stats, " +
			"and with is_test unless trainable_statistics is set, they are Mean and Variance, which stay as they are." + note,
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, C], [N, C, ...] or [N, ..., C]"},
			{Name: "Scale", Doc: "[C]"},
			{Name: "Bias", Doc: "[C]"},
			{Name: "Mean", Doc: "[C], moving mean"},
			{Name: "Variance", Doc: "[C], moving variance of the population"},
			{Name: "MomentumTensor", Doc: "float, one number, in place of momentum; read in each step", Dispensable: true}},
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
			{Name: "trainable_statistics", Doc: "whether to use the statistics of the batch with is_test too", Default: false},
			dataFormatAttr("data_layout")},
		Infer:     inferBatchNorm,
		Cost:      opkit.PerElement(8),
		Bind:      opkit.BindFloats("X", bindBatchNorm[float32], bindBatchNorm[float64]),
		MixesRows: mixes,
		InPlace:   map[string]string{"Y": "X", "MeanOut": "Mean", "VarianceOut": "Variance"},
		Leaves: func(op *program.Op) map[string]string {
			if !useMoving(func(attr string) bool { return isTrue(op, attr) }) {
				return nil
			}
			return map[string]string{"MeanOut": "Mean", "VarianceOut": "Variance"}
		},
		State: map[string]ops.Merge{"MeanOut": ops.MergeMean, "VarianceOut": ops.MergeMean},
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
	if s.Has("MomentumTensor") {
		if err := s.IsFloat("MomentumTensor"); err != nil {
			return err
		}
		if n := ops.Product(s.In("MomentumTensor").Dims); !opkit.Agree(n, 1) {
			return s.Errorf("MomentumTensor", "one number")
		}
	}
	s.Like("Y", "X")
	for _, slot := range []string{"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"} {
		s.Set(slot, x.DType, channels)
	}
	s.Set("ReserveSpace", x.DType, 0)
	return nil
}

// useMoving reports whether the attributes say that the op normalises by Mean and Variance and not by the batch.
func useMoving(is func(attr string) bool) bool {
	return is("use_global_stats") || is("is_test") && !is("trainable_statistics")
}

func givenStatistics(b *ops.Binding) bool { return useMoving(b.Bool) }

// momentumOf returns what reads the share of the moving statistics that a step keeps.
func momentumOf(b *ops.Binding) func() float64 {
	given, fixed := b.In("MomentumTensor"), b.Float("momentum")
	switch {
	case given == nil:
		return func() float64 { return fixed }
	case given.DType() == tensor.Float32:
		return func() float64 { return float64(given.Float32s()[0]) }
	}
	return func() float64 { return given.Float64s()[0] }
}

// isTrue reports whether an attribute whose default is false is set.
func isTrue(op *program.Op, attr string) bool {
	value, _ := op.Int(attr)
	return value != 0
}

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
	momentum, epsilon := momentumOf(b), b.Float("epsilon")
	if givenStatistics(b) || x.Len() == 0 {
		return a.loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
			movingMean, movingVariance := tensor.Data[T](meanOut), tensor.Data[T](varianceOut)
			copy(movingMean[first:last], tensor.Data[T](mean)[first:last])
			copy(movingVariance[first:last], tensor.Data[T](variance)[first:last])
			clear(tensor.Data[T](savedMean)[first:last])
			clear(tensor.Data[T](savedVariance)[first:last])
			if x.Len() > 0 { // a batch without rows does not change the statistics
				kernel.BatchNormInfer(tensor.Data[T](y), tensor.Data[T](x), tensor.Data[T](scale), tensor.Data[T](bias), movingMean, movingVariance, n, c, hw,
					first, last, epsilon)
			}
			return nil
		}})
	}
	f := &ops.Finishing[T]{Out: y}
	parts, stats := b.Scratch(tensor.Float64, n*2*c), b.Scratch(tensor.Float64, kernel.BatchNormStats*c)
	return a.loops(
		ops.Loop{N: n, Reads: []string{"X"}, Writes: []string{}, Run: func(_, from, to int) error {
			kernel.BatchNormParts(opkit.Owned[float64](parts, from, to, n), opkit.Owned[T](x, from, to, n), to-from, c, hw)
			return nil
		}},
		ops.Loop{N: c, Apart: true, Reads: []string{}, Writes: []string{}, Run: func(_, first, last int) error {
			kernel.BatchNormJoin(tensor.Data[float64](stats), tensor.Data[float64](parts), n, c, hw, first, last, epsilon)
			return nil
		}},
		ops.Loop{N: c, Apart: true, Reads: []string{"Mean", "Variance", "MomentumTensor"}, Whole: []string{"MomentumTensor"}, Writes: []string{"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"},
			Run: func(_, first, last int) error {
				movingMean, movingVariance := tensor.Data[T](meanOut), tensor.Data[T](varianceOut)
				copy(movingMean[first:last], tensor.Data[T](mean)[first:last])
				copy(movingVariance[first:last], tensor.Data[T](variance)[first:last])
				kernel.BatchNormMove(tensor.Data[T](savedMean), tensor.Data[T](savedVariance), movingMean, movingVariance, tensor.Data[float64](stats), c,
					first, last, momentum())
				return nil
			}},
		ops.Loop{N: n, Reads: []string{"X", "Scale", "Bias"}, Whole: []string{"Scale", "Bias"}, Writes: []string{"Y"}, TakeOver: f.TakeOverFunction,
			Run: func(_, from, to int) error {
				kernel.BatchNormImages(opkit.Owned[T](f.Out, from, to, n), opkit.Owned[T](x, from, to, n), tensor.Data[T](scale), tensor.Data[T](bias),
					tensor.Data[float64](stats), to-from, c, hw, f.Function)
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
	if givenStatistics(b) {
		if mean == nil || variance == nil {
			return nil, fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Got("no Mean or no Variance"),
				fault.Want("both, which the forward op has used"))
		}
		epsilon := b.Float("epsilon")
		return a.loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
			kernel.BatchNormInferGrad(opkit.Data[T](dx), opkit.Data[T](dscale), opkit.Data[T](dbias), tensor.Data[T](x), tensor.Data[T](scale),
				tensor.Data[T](mean), tensor.Data[T](variance), tensor.Data[T](dy), n, c, hw, first, last, epsilon)
			return nil
		}})
	}
	parts, grads := b.Scratch(tensor.Float64, n*2*c), b.Scratch(tensor.Float64, 2*c)
	loops := []ops.Loop{
		{N: n, Reads: []string{"X", "SavedMean", "Y@GRAD"}, Whole: []string{"SavedMean"}, Writes: []string{}, Run: func(_, from, to int) error {
			kernel.BatchNormGradParts(opkit.Owned[float64](parts, from, to, n), opkit.Owned[T](x, from, to, n), opkit.Owned[T](dy, from, to, n),
				tensor.Data[T](savedMean), to-from, c, hw)
			return nil
		}},
		{N: c, Apart: true, Reads: []string{"SavedVariance"}, Writes: []string{}, Run: func(_, first, last int) error {
			kernel.BatchNormGradJoin(tensor.Data[float64](grads), tensor.Data[float64](parts), tensor.Data[T](savedVariance), n, c, first, last)
			return nil
		}}}
	for slot, to := range []*tensor.Tensor{dbias, dscale} {
		if to == nil {
			continue
		}
		loops = append(loops, ops.Loop{N: c, Apart: true, Reads: []string{}, Writes: []string{[]string{"Bias@GRAD", "Scale@GRAD"}[slot]},
			Run: func(_, first, last int) error {
				kernel.Cast(tensor.Data[T](to)[first:last], tensor.Data[float64](grads)[slot*c:][first:last])
				return nil
			}})
	}
	if dx != nil {
		loops = append(loops, ops.Loop{N: n, Reads: []string{"X", "Scale", "SavedMean", "SavedVariance", "Y@GRAD"},
			Whole: []string{"Scale", "SavedMean", "SavedVariance"}, Writes: []string{"X@GRAD"}, Run: func(_, from, to int) error {
				kernel.BatchNormGradImages(opkit.Owned[T](dx, from, to, n), opkit.Owned[T](x, from, to, n), opkit.Owned[T](dy, from, to, n),
					tensor.Data[T](scale), tensor.Data[T](savedMean), tensor.Data[T](savedVariance), tensor.Data[float64](grads), float64(n*hw), to-from, c, hw)
				return nil
			}})
	}
	return a.loops(loops...)
}
