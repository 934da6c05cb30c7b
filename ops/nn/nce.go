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
	opkit.Register(ops.Def{
		Type:  "nce",
		Class: ops.Random,
		Doc: "The loss of noise contrastive estimation (Gutmann and Hyvärinen 2010), which tells the classes of a row from a few others that are drawn for it: with o = sigmoid(" +
			"Input.Weight[class] + Bias[class]) and b = num_neg_samples*(probability of the class to be drawn), Cost is SampleWeight times the sum of -log(o/(o + b)) over the " +
			"classes of Label and of -log(b/(o + b)) over those drawn. What is drawn depends on seed, the name of Cost, the step and the place of the row in the whole batch.",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [N, D]"},
			{Name: "Label", Doc: "int64 [N, n], the n classes of each row"},
			{Name: "Weight", Doc: "[num_total_classes, D]"},
			{Name: "Bias", Doc: "[num_total_classes, 1]", Dispensable: true},
			{Name: "SampleWeight", Doc: "[N, 1], the weight of each row, else 1", Dispensable: true},
			{Name: "CustomDistProbs", Doc: "float32 [num_total_classes], for sampler 2: the probability of each class", Dispensable: true},
			{Name: "CustomDistAlias", Doc: "int32, likewise: what a class becomes that does not stay, in Walker's alias method; -1 for itself", Dispensable: true},
			{Name: "CustomDistAliasProbs", Doc: "float32, likewise: how probable it is that a class stays", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Cost", Doc: "[N, 1]"},
			{Name: "SampleLogits", Doc: "[N, n + num_neg_samples]: o", Intermediate: true},
			{Name: "SampleLabels", Doc: "int64, likewise: the classes of Label, and those drawn", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "num_total_classes", Doc: "number of classes", Kind: int32(0)},
			{Name: "num_neg_samples", Doc: "how many classes are drawn for a row", Default: int32(10)},
			{Name: "sampler", Doc: "distribution of the classes that are drawn: 0 all alike, 1 log-uniform, 2 CustomDist", Default: int32(0)},
			{Name: "seed", Doc: "key of the random numbers", Default: int32(0)},
			{Name: "is_sparse", Doc: "whether the gradient of Weight is sparse", Default: false},
			{Name: "custom_neg_classes", Doc: "the classes to take for every row in place of drawn ones, num_neg_samples of them", Default: []int32{}}},
		Infer:     inferNCE,
		MixesRows: opkit.RowsTogether("Input", "Label", "SampleWeight"),
		Cost:      chosenCost("Input", func(s *ops.Shapes) int64 { return 1 + s.Int("num_neg_samples") }),
		Bind:      opkit.BindFloats("Input", bindNCE[float32], bindNCE[float64]),
	}, opkit.Gradient{
		Doc: "with g = dCost*SampleWeight times b/(o + b)*(o - 1) for classes of Label and o*(1 - o)/(o + b) for others, dInput is the sum of g*Weight[class] of a row, dWeight[class] " +
			"that of g*Input, and dBias[class] that of g. With is_sparse dWeight has a row for each class of SampleLabels.",
		Inputs:  []string{"Input", "Label", "Weight", "Bias", "SampleWeight", "CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs"},
		Outputs: []string{"SampleLogits", "SampleLabels"},
		Wrt:     []string{"Input", "Weight", "Bias"},
		Refine:  sparseChosen("Weight", func(s *ops.Shapes) int64 { return ops.Product(s.In("SampleLabels").Dims) }),
		Rows:    true,
		Cost:    chosenCost("Input", func(s *ops.Shapes) int64 { return 1 + s.Int("num_neg_samples") }),
		Bind:    opkit.BindFloats("Input", bindNCEGrad[float32], bindNCEGrad[float64]),
	})
}

func inferNCE(s *ops.Shapes) error {
	if err := inferChosen(s, "Input", "Weight"); err != nil {
		return err
	}
	x, label, classes, samples := s.In("Input"), s.In("Label").Dims, s.Int("num_total_classes"), s.Int("num_neg_samples")
	if classes < 2 || !opkit.Agree(s.In("Weight").Dims[0], classes) {
		return opkit.BadAttr(s, "num_total_classes", "the rows of Weight %v, at least 2", s.In("Weight").Dims)
	}
	if samples < 1 || samples > mostSamples {
		return opkit.BadAttr(s, "num_neg_samples", "1 to %d", mostSamples)
	}
	custom := s.Ints("custom_neg_classes")
	if len(custom) > 0 && (int64(len(custom)) != samples || kernel.FirstBadID(custom, classes) >= 0) {
		return opkit.BadAttr(s, "custom_neg_classes", "as many classes below %d as num_neg_samples, %d", classes, samples)
	}
	if s.Has("SampleWeight") {
		if err := s.SameType("Input", "SampleWeight"); err != nil {
			return err
		}
		if w := s.In("SampleWeight").Dims; len(w) < 1 || !opkit.Agree(w[0], x.Dims[0]) || len(w) > 2 || len(w) == 2 && !opkit.Agree(w[1], 1) {
			return s.Errorf("SampleWeight", "a number for each row of Input %v", x.Dims)
		}
	}
	if err := checkSampler(s, classes); err != nil {
		return err
	}
	right := int64(1)
	if len(label) == 2 {
		right = label[1]
	}
	all := int64(program.Unknown)
	if right != program.Unknown {
		if right > mostSamples {
			return s.Errorf("Label", "at most %d classes for a row", mostSamples)
		}
		all = right + samples
	}
	s.Set("Cost", x.DType, x.Dims[0], 1)
	s.Set("SampleLogits", x.DType, x.Dims[0], all)
	s.Set("SampleLabels", tensor.Int64, x.Dims[0], all)
	for _, slot := range []string{"Cost", "SampleLogits", "SampleLabels"} {
		s.ShareLoD(slot, "Input")
	}
	return nil
}

// checkSampler checks the distribution of classes that an op draws from.
func checkSampler(s *ops.Shapes, classes int64) error {
	kind := kernel.SamplerKind(s.Int("sampler"))
	if kind < kernel.UniformClasses || kind > kernel.ListedClasses {
		return opkit.BadAttr(s, "sampler", "0, 1 or 2")
	}
	if kind != kernel.ListedClasses {
		return nil
	}
	for slot, want := range opkit.InOrder(map[string]tensor.DType{"CustomDistProbs": tensor.Float32, "CustomDistAlias": tensor.Int32, "CustomDistAliasProbs": tensor.Float32}) {
		if !s.Has(slot) {
			return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Gotf("sampler 2 without %s", slot), fault.Want("the distribution"))
		}
		if err := opkit.CheckType(s, slot, s.In(slot).DType == want, want.String()); err != nil {
			return err
		}
		if n := ops.Product(s.In(slot).Dims); !opkit.Agree(n, classes) {
			return s.Errorf(slot, "a number for each of %d classes", classes)
		}
	}
	return nil
}

// A contrast is a bound nce.
type contrast[T tensor.Float] struct {
	*chosen[T]
	label, weight       *tensor.Tensor
	probs, alias, stays *tensor.Tensor
	right               int // classes of Label of a row
	samples, classes    int64
	kind                kernel.SamplerKind
	expected            *tensor.Tensor // of each place, how many of its class are expected among those drawn
	custom              []int64
	seed                int64
	name                uint64
	step                batch
}

func newContrast[T tensor.Float](b *ops.Binding) *contrast[T] {
	label := b.In("Label")
	c := &contrast[T]{label: label, weight: b.In("SampleWeight"), probs: b.In("CustomDistProbs"), alias: b.In("CustomDistAlias"), stays: b.In("CustomDistAliasProbs"),
		samples: b.Int("num_neg_samples"), classes: b.Int("num_total_classes"), kind: kernel.SamplerKind(b.Int("sampler")), custom: b.Ints("custom_neg_classes"),
		seed: b.Int("seed"), step: batchOf(b, "Input"), right: 1}
	if len(label.Dims()) == 2 {
		c.right = int(label.Dims()[1])
	}
	c.chosen = newChosen[T](b, "Input", "Weight", c.right+int(c.samples))
	c.expected = b.Scratch(tensor.Float64, c.n*c.places)
	return c
}

// sampler returns the distribution over the memory of this run.
func (c *contrast[T]) sampler() (kernel.Sampler, error) {
	s := kernel.Sampler{Classes: c.classes, Kind: c.kind}
	if c.kind == kernel.ListedClasses {
		s.Probabilities, s.Alias, s.Keep = c.probs.Float32s(), c.alias.Int32s(), c.stays.Float32s()
		for class, other := range s.Alias {
			if int64(other) >= c.classes {
				return s, fault.E(fault.InvalidArgument, fault.On(c.op), fault.Var(c.op.In("CustomDistAlias")), fault.Gotf("%d for class %d", other, class),
					fault.Wantf("a class below %d, or -1", c.classes))
			}
		}
	}
	return s, nil
}

// expect fills expected for rows [from, to).
func (c *contrast[T]) expect(s *kernel.Sampler, from, to int) []float64 {
	expected := c.expected.Float64s()[from*c.places : to*c.places]
	for k, class := range c.ids.Int64s()[from*c.places : to*c.places] {
		expected[k] = s.Probability(class) * float64(c.samples)
	}
	return expected
}

// weightOf returns the weight of a row.
func (c *contrast[T]) weightOf(i int) float64 {
	if c.weight == nil {
		return 1
	}
	return float64(tensor.Data[T](c.weight)[i])
}

// draw writes the classes of rows [from, to) to ids.
func (c *contrast[T]) draw(s *kernel.Sampler, from, to int) error {
	if err := opkit.CheckIDs(c.op, c.op.In("Label"), c.label.Int64s()[from*c.right:to*c.right], from, c.classes); err != nil {
		return err
	}
	stream, samples := opkit.StreamAt(c.name, c.step.Step), int(c.samples)
	eachRowRun(c.x, c.step, from, to, func(first, end int, place uint64) {
		for i := first; i < end; i++ {
			ids := c.ids.Int64s()[i*c.places:][:c.places]
			copy(ids, c.label.Int64s()[i*c.right:][:c.right])
			copy(ids[c.right:], c.custom)
			if len(c.custom) > 0 {
				continue
			}
			for j := range samples {
				ids[c.right+j] = s.Draw(c.seed, stream, (place+uint64(i-first))*uint64(samples)+uint64(j))
			}
		}
	})
	return nil
}

var distributionSlots = []string{"Weight", "Bias", "CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs"}

func bindNCE[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c := newContrast[T](b)
	c.name = kernel.StreamOf("nce", b.Op().Out("Cost"))
	cost, sigmoids, labels := orScratch[T](b, "Cost", c.n), orScratch[T](b, "SampleLogits", c.n*c.places), b.Out("SampleLabels")
	return b.Loops(ops.Loop{N: c.n, Whole: distributionSlots, Run: func(_, from, to int) error {
		s, err := c.sampler()
		if err == nil {
			err = c.draw(&s, from, to)
		}
		if err != nil {
			return err
		}
		if labels != nil {
			copy(labels.Int64s()[from*c.places:], c.ids.Int64s()[from*c.places:to*c.places])
		}
		expected := c.expect(&s, from, to)
		c.score(sigmoids, from, to)
		for i := from; i < to; i++ {
			tensor.Data[T](cost)[i] = kernel.NoiseContrast(c.of(sigmoids, i, i+1), expected[(i-from)*c.places:][:c.places], c.right, c.weightOf(i))
		}
		return nil
	}})
}

func bindNCEGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c, sigmoids, labels, dcost := newContrast[T](b), b.In("SampleLogits"), b.In("SampleLabels"), b.In("Cost@GRAD")
	slopes := b.Scratch(tensor.Of[T](), c.n*c.places)
	reads := append([]string{"SampleWeight", "SampleLogits", "SampleLabels", "Cost@GRAD"}, distributionSlots...)
	first := ops.Loop{N: c.n, Reads: reads, Whole: distributionSlots, Writes: []string{}, Run: func(_, from, to int) error {
		s, err := c.sampler()
		if err != nil {
			return err
		}
		ids := c.ids.Int64s()[from*c.places : to*c.places]
		copy(ids, labels.Int64s()[from*c.places:])
		if err := opkit.CheckIDs(c.op, c.op.In("SampleLabels"), ids, from*c.places, c.classes); err != nil {
			return err
		}
		expected := c.expect(&s, from, to)
		for i := from; i < to; i++ {
			kernel.NoiseContrastGrad(c.of(slopes, i, i+1), c.of(sigmoids, i, i+1), expected[(i-from)*c.places:][:c.places], c.right, c.weightOf(i),
				float64(tensor.Data[T](dcost)[i]))
		}
		return nil
	}}
	return b.Loops(append([]ops.Loop{first}, c.gradients(b, slopes)...)...)
}
