package nn

import (
	"math"
	"math/bits"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:  "sample_logits",
		Class: ops.Random,
		Doc: "Leaves of the logits of many classes those of the labels and of a few classes that are drawn, for sampled softmax (Jean et al. 2015): SampledLogits = Logits[Samples] - " +
			"log(Probabilities), where the drawn classes are different ones of Fluid's log-uniform distribution, the same for all rows, and Probabilities says how often " +
			"each is expected among them. What is drawn depends on seed, the name of SampledLogits and the step.",
		Inputs: []ops.Slot{
			{Name: "Logits", Doc: "float [N, classes]"},
			{Name: "Labels", Doc: "int64 [N, n], the n classes of each row"},
			{Name: "CustomizedSamples", Doc: "int64 [N, n + num_samples], for use_customized_samples: the labels, and what to take for drawn classes", Dispensable: true},
			{Name: "CustomizedProbabilities", Doc: "likewise, of the type of Logits: their probabilities", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Samples", Doc: "int64 [N, n + num_samples]: the labels, and the drawn classes", Intermediate: true},
			{Name: "Probabilities", Doc: "of the dims of Samples", Intermediate: true},
			{Name: "LogitsDim", Doc: "no elements; its dims are 0 and then those of Logits", Intermediate: true},
			{Name: "LabelsDim", Doc: "no elements; its dims are 0 and then those of Labels", Intermediate: true},
			{Name: "SampledLogits", Doc: "of the dims of Samples"},
			{Name: "SampledLabels", Doc: "int64, of the dims of Labels: 0 to n - 1, where the labels stand in Samples"}},
		Attrs: []ops.Attr{
			{Name: "use_customized_samples", Doc: "whether nothing is drawn", Default: false},
			{Name: "uniq", Doc: "whether drawn classes are different: only true", Default: true},
			{Name: "remove_accidental_hits", Doc: "whether a drawn class that is a label of the row has its logit lowered by 1e20, so that it counts nothing", Default: true},
			{Name: "num_samples", Doc: "how many classes are drawn, at most as many as there are", Kind: int32(0)},
			{Name: "seed", Doc: "key of the random numbers", Default: int32(0)}},
		Infer:     inferSampleLogits,
		MixesRows: opkit.RowsTogether("Logits", "Labels", "CustomizedSamples", "CustomizedProbabilities"),
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("Logits", bindSampleLogits[float32], bindSampleLogits[float64]),
	}, opkit.Gradient{
		Doc:     "dLogits[Samples] = dSampledLogits, summed where a class occurs several times, and 0 elsewhere.",
		Inputs:  []string{"Logits", "Labels", "CustomizedSamples", "CustomizedProbabilities"},
		Outputs: []string{"Samples"},
		From:    []string{"SampledLogits"},
		Wrt:     []string{"Logits"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Logits", bindSampleLogitsGrad[float32], bindSampleLogitsGrad[float64]),
	})
}

func inferSampleLogits(s *ops.Shapes) error {
	for _, slot := range []string{"Logits", "Labels"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat("Logits"); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "Labels", s.In("Labels").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	x, labels, samples := s.In("Logits"), s.In("Labels"), s.Int("num_samples")
	if !opkit.Agree(x.Dims[0], labels.Dims[0]) || labels.Dims[1] > mostSamples {
		return s.Errorf("Labels", "labels for each row of Logits %v, at most %d", x.Dims, mostSamples)
	}
	if !s.Bool("uniq") {
		return opkit.UnsupportedAttr(s, "uniq", "true")
	}
	custom := s.Bool("use_customized_samples")
	if samples < 1 || samples > mostSamples || !custom && x.Dims[1] >= 0 && samples > x.Dims[1] {
		return opkit.BadAttr(s, "num_samples", "at least 1, at most as many as Logits %v has classes, and at most %d", x.Dims, mostSamples)
	}
	dims := []int64{x.Dims[0], program.Unknown}
	if labels.Dims[1] != program.Unknown {
		dims[1] = labels.Dims[1] + samples
	}
	if custom {
		for slot, want := range opkit.InOrder(map[string]tensor.DType{"CustomizedSamples": tensor.Int64, "CustomizedProbabilities": x.DType}) {
			if !s.Has(slot) {
				return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Got("use_customized_samples without "+slot), fault.Want("both Customized slots"))
			}
			if err := opkit.CheckType(s, slot, s.In(slot).DType == want, want.String()); err != nil {
				return err
			}
			if !ops.Compatible(s.In(slot).Dims, dims) {
				return s.Errorf(slot, "dims %v", dims)
			}
		}
	}
	s.Set("Samples", tensor.Int64, dims...)
	s.Set("Probabilities", x.DType, dims...)
	s.Set("SampledLogits", x.DType, dims...)
	s.Set("SampledLabels", tensor.Int64, labels.Dims...)
	s.Set("LogitsDim", x.DType, append([]int64{0}, x.Dims...)...)
	s.Set("LabelsDim", tensor.Int64, append([]int64{0}, labels.Dims...)...)
	for _, slot := range []string{"Samples", "Probabilities", "SampledLogits", "SampledLabels"} {
		s.ShareLoD(slot, "Logits")
	}
	return nil
}

// accidentalHit is what a logit is lowered by, as in Fluid.
const accidentalHit = 1e20

func bindSampleLogits[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, logits, labels, seed, step := b.Op(), b.In("Logits"), b.In("Labels"), b.Int("seed"), b.Env.Step
	custom, probabilities := b.In("CustomizedSamples"), b.In("CustomizedProbabilities")
	if !b.Bool("use_customized_samples") {
		custom = nil
	}
	n, classes, right, drawn := int(logits.Dims()[0]), int(logits.Dims()[1]), int(labels.Dims()[1]), int(b.Int("num_samples"))
	width, removes := right+drawn, b.Bool("remove_accidental_hits")
	samples, chances := orScratch[int64](b, "Samples", n*width), orScratch[T](b, "Probabilities", n*width)
	out, places := orScratch[T](b, "SampledLogits", n*width), b.Out("SampledLabels")
	common, tries := b.Scratch(tensor.Int64, drawn), b.Scratch(tensor.Int64, 1)
	name, table := kernel.StreamOf("sample_logits", op.Out("SampledLogits")), b.Scratch(tensor.Int64, 1<<bits.Len(uint(2*drawn)))
	draw := ops.Loop{N: 1, Apart: true, Reads: []string{}, Writes: []string{}, Run: func(int, int, int) error {
		if custom == nil {
			tries.Int64s()[0] = kernel.DrawDifferent(common.Int64s(), table.Int64s(), int64(classes), seed, opkit.StreamAt(name, step))
		}
		return nil
	}}
	return b.Loops(draw, ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			row, chance := samples.Int64s()[i*width:][:width], tensor.Data[T](chances)[i*width:][:width]
			if custom != nil {
				copy(row, custom.Int64s()[i*width:])
				copy(chance, tensor.Data[T](probabilities)[i*width:])
			} else {
				copy(row, labels.Int64s()[i*right:][:right])
				copy(row[right:], common.Int64s())
			}
			if err := opkit.CheckIDs(op, op.In("Labels"), row, i, int64(classes)); err != nil {
				return err
			}
			x, result := tensor.Data[T](logits)[i*classes:][:classes], tensor.Data[T](out)[i*width:][:width]
			for j, class := range row {
				if custom == nil {
					chance[j] = T(kernel.ExpectedCount(kernel.LogUniformProbability(class, int64(classes)), int64(drawn), tries.Int64s()[0]))
				}
				v := float64(x[class])
				if removes && j >= right && isOneOf(row[:right], class) {
					v -= accidentalHit
				}
				v -= max(-accidentalHit, min(math.Log(float64(chance[j])), accidentalHit))
				result[j] = T(max(-accidentalHit, min(v, accidentalHit)))
			}
			if places != nil {
				for j := range right {
					places.Int64s()[i*right+j] = int64(j)
				}
			}
		}
		return nil
	}})
}

func isOneOf(labels []int64, class int64) bool {
	for _, l := range labels {
		if l == class {
			return true
		}
	}
	return false
}

func bindSampleLogitsGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, samples, dout, dx := b.Op(), b.In("Samples"), b.In("SampledLogits@GRAD"), b.Out("Logits@GRAD")
	n, classes, width := int(dx.Dims()[0]), int(dx.Dims()[1]), int(samples.Dims()[1])
	return b.Loops(ops.Loop{N: n, Reads: []string{"Samples", "SampledLogits@GRAD"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			row := samples.Int64s()[i*width:][:width]
			if err := opkit.CheckIDs(op, op.In("Samples"), row, i, int64(classes)); err != nil {
				return err
			}
			into := tensor.Data[T](dx)[i*classes:][:classes]
			clear(into)
			for j, class := range row {
				into[class] += tensor.Data[T](dout)[i*width+j]
			}
		}
		return nil
	}})
}

func init() {
	ops.Register(ops.Def{
		Type:  "sampling_id",
		Class: ops.Random,
		Doc: "Draws a class for each row of probabilities: the first at which their sum exceeds a number between min and max, all equally likely, and the last if none does. " +
			"What is drawn depends on seed, the name of Out, the step and the place of the row in the whole batch.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, classes], probabilities"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "int64 [N]"}},
		Attrs: []ops.Attr{
			{Name: "min", Doc: "lower end", Default: float32(0)},
			{Name: "max", Doc: "upper end", Default: float32(1)},
			{Name: "seed", Doc: "key of the random numbers", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			if err := s.Rank("X", 2); err != nil {
				return err
			}
			if s.In("X").Dims[1] == 0 {
				return s.Errorf("X", "at least one class")
			}
			if low, high := s.Float("min"), s.Float("max"); !(low <= high) || math.IsInf(high-low, 0) {
				return opkit.BadAttr(s, "min", "a finite number, at most max")
			}
			s.Set("Out", tensor.Int64, s.In("X").Dims[0])
			s.ShareLoD("Out", "X")
			return nil
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindSamplingID[float32], bindSamplingID[float64]),
	})
}

func bindSamplingID[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, low, high, seed, step := b.In("X"), b.Out("Out"), b.Float("min"), b.Float("max"), b.Int("seed"), batchOf(b, "X")
	name := kernel.StreamOf("sampling_id", b.Op().Out("Out"))
	n, classes := opkit.Matrix(x.Dims(), 1)
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		stream := opkit.StreamAt(name, step.Step)
		var r [1]float64
		eachRowRun(x, step, from, to, func(first, end int, place uint64) {
			for i := first; i < end; i++ {
				kernel.UniformFill(r[:], seed, stream, place+uint64(i-first), low, high)
				out.Int64s()[i] = kernel.PickByProbability(tensor.Data[T](x)[i*classes:][:classes], r[0])
			}
		})
		return nil
	}})
}
