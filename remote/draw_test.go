package remote_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// A subject is a random model under the law.
type subject struct {
	testkit.Model
	fetch       []string // the loss first, then a prediction by rows and a parameter
	inputs      []input
	sparse      bool // tables have sparse gradients
	distributed bool // and only servers hold them
	stored      bool // as bfloat16
	pooled      int  // levels of sequences that become one row
}

// An input is a variable that the batch or the dataset brings.
type input struct {
	name  string
	dtype tensor.DType
	dims  []int64 // of one row
	lod   int     // levels of sequences
}

// keysName is the input of tables that grow.
const keysName = "keys"

// sample makes the value of record i of the dataset. All inputs of a record that are sequences have the same lengths.
func (in input) sample(t testkit.TB, k, i int) *tensor.Tensor {
	if in.lod == 0 {
		value := testkit.Random(t, in.dtype, uint64(i*7+k), in.dims...)
		for at := range value.Len() {
			if in.name == keysName { // far apart, of both signs, and -1
				value.Int64s()[at] = value.Int64s()[at]<<(i%70) - 1
			}
		}
		return value
	}
	lod, rows := testkit.Sequences(uint64(i), 1, in.lod)
	value := testkit.Random(t, in.dtype, uint64(i*7+k), append([]int64{rows}, in.dims...)...)
	value.SetLoD(lod)
	return value
}

// drawModel draws a small network: what goes in, layers, a loss, and how it is trained. Where reader is set, the program reads the inputs from the
// dataset in batches that reader makes. What goes in is one of kinds, if there are any.
func drawModel(t *rapid.T, reader func(layers.Reader) layers.Reader, kinds ...string) subject {
	m := layers.NewModel().Seed(rapid.Int64Range(1, 1<<20).Draw(t, "seed"))
	var s subject
	if kinds == nil {
		kinds = []string{"numbers", "numbers", "words", keysName, "image", "sequences", "sequences"}
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "input")
	classify := rapid.Bool().Draw(t, "classify")
	switch kind {
	case "numbers":
		s.inputs = append(s.inputs, input{"x", tensor.Float32, []int64{rapid.Int64Range(1, 5).Draw(t, "features")}, 0})
	case "words":
		s.inputs = append(s.inputs, input{"x", tensor.Int64, []int64{1}, 0})
	case keysName:
		s.inputs = append(s.inputs, input{keysName, tensor.Int64, []int64{1}, 0})
	case "image":
		s.inputs = append(s.inputs, input{"x", tensor.Float32, []int64{1, 5, 5}, 0})
	case "sequences":
		s.inputs = append(s.inputs, input{"x", tensor.Int64, []int64{1}, rapid.IntRange(1, 2).Draw(t, "levels")})
		s.pooled = rapid.IntRange(0, s.inputs[0].lod).Draw(t, "pooled levels")
	}
	label := input{"y", tensor.Float32, []int64{2}, s.inputs[0].lod - s.pooled}
	if classify {
		label.dtype, label.dims = tensor.Int64, []int64{1}
	}
	s.inputs = append(s.inputs, label)

	v := declare(m, s.inputs, reader)
	h := v[0]
	switch kind {
	case "words", keysName:
		h = drawTables(t, h, &s)
	case "sequences":
		h = drawSequences(t, m, drawTables(t, h, &s), s.pooled)
	case "image":
		if rapid.Bool().Draw(t, "augmented") {
			h = layers.RandomFlip(layers.RandomCrop(h, []int64{4, 5}), []int{3}, 0.5)
		}
		h = drawImage(t, layers.Conv2D(h, 4, 3, layers.Padding(1, 1), layers.Act("relu")))
	}
	h = drawLayers(t, m, h)
	loss := drawLoss(t, h, v[1], classify)
	drawOptimizer(t, s.sparse, s.stored).Minimize(loss)
	s.Model = testkit.Built(t, m, loss)
	parameters := m.Parameters()
	parameter := parameters[0]
	if s.distributed { // a table that trainers do not hold cannot be fetched
		parameter = parameters[len(parameters)-1]
	}
	s.fetch = []string{loss.Name(), h.Name(), parameter.Name()}
	return s
}

// declare makes the input variables of a model.
func declare(m *layers.Model, inputs []input, reader func(layers.Reader) layers.Reader) []layers.Variable {
	var fields []layers.FieldSpec
	var fed []layers.Variable
	for _, in := range inputs {
		if reader == nil {
			fed = append(fed, layers.Data(m, in.name, layers.Dims(in.dims...), layers.DType(in.dtype), layers.LoD(in.lod)))
			continue
		}
		fields = append(fields, layers.Field(in.name, layers.Dims(in.dims...), layers.DType(in.dtype), layers.LoD(in.lod)))
	}
	if reader != nil {
		return layers.Read(reader(layers.OpenDataset(m, testkit.Dataset, fields...)))
	}
	return fed
}

// drawLayers stacks layers with shared and frozen parameters, state that the forward pass
// updates, chance, and parameters that are called like slices of others.
func drawLayers(t *rapid.T, m *layers.Model, h layers.Variable) layers.Variable {
	names := rapid.SampledFrom([][]string{{""}, {"", ""}, {"w", "w.block0", "w@GRAD.block1"}, {"same", "same"}}).Draw(t, "names")
	width := rapid.Int64Range(1, 6).Draw(t, "width")
	if names[0] == "same" {
		h = layers.FC(h, width) // equal dims from here on
	}
	for _, name := range names {
		attr := layers.ParamAttr{Name: name, Frozen: name == "" && rapid.IntRange(0, 4).Draw(t, "frozen") == 0}
		if rapid.Bool().Draw(t, "settings") {
			attr.LearningRate, attr.Regularizer = 0.3, layers.L2(0.2)
		}
		attr.Initializer = rapid.SampledFrom([]layers.Initializer{nil, layers.Normal(0, 0.3), layers.Uniform(-0.4, 0.4),
			layers.TruncatedNormal(0.1, 0.2), layers.MSRA()}).Draw(t, "initializer")
		act := rapid.SampledFrom([]string{"tanh", "relu", "sigmoid", "softsign"}).Draw(t, "act")
		h = layers.FC(h, width, layers.Param(attr), layers.Act(act))
		switch rapid.IntRange(0, 5).Draw(t, "extra") {
		case 0:
			h = layers.BatchNorm(h, layers.KeepStatistics(0.7))
		case 1:
			h = layers.Dropout(h, 0.3)
		case 2:
			h = layers.Dropout(h, 0.5, layers.UpscaleInTrain())
		case 3:
			layers.Increment(m.State(m.UniqueName("count"), tensor.Float32, []int64{1}, layers.Constant(0)), 1)
		}
	}
	return h
}

// drawTables looks words up in two tables. With sparse gradients it does so in one of them twice.
func drawTables(t *rapid.T, words layers.Variable, s *subject) layers.Variable {
	grows := s.inputs[0].name == keysName
	s.sparse = grows || rapid.Bool().Draw(t, "sparse")
	var options, stored []layers.Option
	if s.sparse {
		options = append(options, layers.Sparse())
		if s.distributed = grows || rapid.Bool().Draw(t, "distributed"); s.distributed {
			options = append(options, layers.Distributed())
		}
		if rapid.Bool().Draw(t, "bfloat16") {
			options, stored = append(options, layers.StoreBFloat16()), []layers.Option{layers.StoreBFloat16()}
			s.stored = true
		}
	}
	rule := rapid.SampledFrom([][]layers.Option{nil, {layers.EvictUnseen(1)}, {layers.EvictUnseenDays(1)}, {layers.CountFilterEntry(2), layers.EvictUnseen(3)}, {layers.ProbabilityEntry(0.7)},
		{layers.EvictOldest()}}).Draw(t, "rule of keys")
	table := func(name string, rows int64) layers.Variable {
		if grows {
			return layers.SparseEmbedding(words, 100*rows, 4, slices.Concat(rule, stored, []layers.Option{layers.Param(layers.ParamAttr{Name: name})})...)
		}
		return layers.Embedding(words, rows, 4, append(options, layers.Param(layers.ParamAttr{Name: name}))...)
	}
	rows := rapid.Int64Range(testkit.Classes, 9).Draw(t, "vocabulary")
	h := layers.Mul(table("emb", rows), table("embedding", 5))
	if s.sparse {
		h = layers.Add(h, table("emb", rows))
	}
	return h
}

// drawImage normalises and shrinks images of four channels.
func drawImage(t *rapid.T, h layers.Variable) layers.Variable {
	switch rapid.SampledFrom([]string{"none", "batch", "group", "instance", "affine", "lrn"}).Draw(t, "norm of images") {
	case "batch":
		h = layers.BatchNorm(h)
	case "group":
		h = layers.GroupNorm(h, 2)
	case "instance":
		h = layers.InstanceNorm(h)
	case "affine":
		h = layers.AffineChannel(h)
	case "lrn":
		h = layers.LRN(h, 3, 1, 0.5, 0.75)
	}
	switch rapid.SampledFrom([]string{"none", "shuffle", "pixels", "resize", "nearest"}).Draw(t, "rearrange images") {
	case "resize":
		h = layers.ResizeBilinear(h, 7, 4)
	case "nearest":
		h = layers.Interpolate(h, []int64{4, 6}, "nearest")
	case "shuffle":
		h = layers.ShuffleChannel(h, 2)
	case "pixels":
		h = layers.PixelShuffle(h, 2)
	}
	switch rapid.SampledFrom([]string{"max", "average", "places"}).Draw(t, "pool images") {
	case "max":
		return layers.Pool2D(h, 2, layers.Stride(2, 2))
	case "average":
		return layers.Pool2D(h, 3, layers.Stride(2, 2), layers.AvgPool())
	}
	h, _ = layers.MaxPool2DWithIndex(h, 2, layers.Stride(2, 2))
	return h
}

// drawSequences reads sequences, if they have one level, with a network for them, and makes one row of those of the innermost levels.
func drawSequences(t *rapid.T, m *layers.Model, h layers.Variable, pooled int) layers.Variable {
	if h.LoDLevel() == 1 {
		switch rapid.SampledFrom([]string{"none", "lstm", "gru", "conv", "expand", "pad"}).Draw(t, "read") {
		case "lstm":
			h, _ = layers.DynamicLSTM(layers.FC(h, 8), 8)
		case "gru":
			h = layers.DynamicGRU(layers.FC(h, 6), 2)
		case "conv":
			h = layers.SequenceConv(h, 3, 3, layers.Act("tanh"))
		case "expand":
			h = layers.Add(h, layers.SequenceExpand(layers.SequencePool(h, "max"), h))
		case "pad":
			padded, lengths := layers.SequencePad(h, layers.FillConstant(m, 0, []int64{1}))
			h = layers.SequenceUnpad(layers.Tanh(padded), lengths)
		}
	}
	for range pooled {
		h = layers.SequencePool(h, rapid.SampledFrom([]string{"sum", "average", "sqrt", "max", "last", "first"}).Draw(t, "pool"))
	}
	return h
}

// drawLoss draws a mean or a sum over the batch.
func drawLoss(t *rapid.T, h, y layers.Variable, classify bool) layers.Variable {
	var cost layers.Variable
	switch {
	case !classify:
		cost = layers.SquareErrorCost(layers.FC(h, 2), y)
	case rapid.Bool().Draw(t, "softmax apart"):
		cost = layers.CrossEntropy(layers.Softmax(layers.FC(h, testkit.Classes)), y)
	default:
		cost, _ = layers.SoftmaxWithCrossEntropy(layers.FC(h, testkit.Classes), y)
	}
	if rapid.IntRange(0, 3).Draw(t, "sum") == 0 {
		return layers.ReduceSum(cost, layers.Name("loss"))
	}
	return layers.Mean(cost, layers.Name("loss"))
}

// drawOptimizer draws a rule with a rate or a schedule, clipping and regularization; a rule that takes sparse gradients, if there are some.
func drawOptimizer(t *rapid.T, sparse, stored bool) *optimizer.Optimizer {
	var options []optimizer.Option
	rules := rules
	if sparse {
		rules = append(rules[:len(rules)-1:len(rules)-1], "lazy adam")
	}
	if stored { // rules with norms of the parameter take no table of bfloat16
		rules = slices.DeleteFunc(slices.Clone(rules), func(name string) bool { return name == "lamb" || name == "lars_momentum" || name == "dpsgd" })
	}
	switch rapid.IntRange(0, 4).Draw(t, "clip") {
	case 0:
		options = append(options, optimizer.ClipGradients(optimizer.ByValue(-0.1, 0.1)))
	case 1:
		options = append(options, optimizer.ClipGradients(optimizer.ByNorm(0.1)))
	case 2:
		options = append(options, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1)))
	}
	switch rapid.IntRange(0, 3).Draw(t, "regularize") {
	case 0:
		options = append(options, optimizer.Regularize(layers.L1(0.01)))
	case 1:
		options = append(options, optimizer.Regularize(layers.L2(0.01)))
	}
	name := rapid.SampledFrom(rules).Draw(t, "rule")
	if schedule, ok := schedules[rapid.SampledFrom(append(sortedKeys(schedules), "constant", "constant")).Draw(t, "schedule")]; ok {
		return update(name, schedule, options)
	}
	return update(name, 0.05, options)
}

// rules names every update rule; the last refuses sparse gradients.
var rules = []string{"sgd", "momentum", "nesterov", "adagrad", "adam", "decayed_adagrad", "adadelta", "adamax", "rmsprop", "ftrl", "adamw",
	"lamb", "lars_momentum", "proximal_gd", "proximal_adagrad", "dpsgd", "custom"}

// update returns the optimizer of a rule.
func update[R optimizer.Rate](rule string, rate R, options []optimizer.Option) *optimizer.Optimizer {
	switch rule {
	case "sgd":
		return optimizer.SGD(rate, options...)
	case "momentum":
		return optimizer.Momentum(rate, 0.9, options...)
	case "nesterov":
		return optimizer.Momentum(rate, 0.9, append(options, optimizer.Nesterov())...)
	case "adagrad":
		return optimizer.Adagrad(rate, options...)
	case "adam":
		return optimizer.Adam(rate, options...)
	case "lazy adam":
		return optimizer.Adam(rate, append(options, optimizer.Lazy())...)
	case "decayed_adagrad":
		return optimizer.DecayedAdagrad(rate, options...)
	case "adadelta":
		return optimizer.Adadelta(options...)
	case "adamax":
		return optimizer.Adamax(rate, options...)
	case "rmsprop":
		return optimizer.RMSProp(rate, append(options, optimizer.Centered(), optimizer.WithMomentum(0.5))...)
	case "ftrl":
		return optimizer.Ftrl(rate, options...)
	case "adamw":
		return optimizer.AdamW(rate, options...)
	case "lamb":
		return optimizer.Lamb(rate, options...)
	case "lars_momentum":
		return optimizer.LarsMomentum(rate, 0.9, 0.1, options...)
	case "proximal_gd":
		return optimizer.ProximalGD(rate, append(options, optimizer.Penalties(0.01, 0.02))...)
	case "proximal_adagrad":
		return optimizer.ProximalAdagrad(rate, append(options, optimizer.Penalties(0.01, 0.02))...)
	case "dpsgd":
		return optimizer.Dpsgd(rate, 0.5, 4, 0.01, 7, options...)
	}
	return optimizer.Custom(rate, lion, options...)
}

// lion is a rule of a user's own, with an accumulator and a number: a step along the sign of a mean of gradients, shorter with every step.
func lion(u *optimizer.Update) {
	velocity, share := u.State("velocity", 0), u.Number("share", 1)
	u.Set(velocity, layers.Add(layers.Scale(velocity, 0.9, 0), layers.Scale(u.Grad, 0.1, 0)))
	u.Set(share, layers.Scale(share, 0.5, 0))
	u.Set(u.Param, layers.Sub(u.Param, layers.Mul(layers.Mul(layers.Sign(velocity), share), u.Rate)))
}

// byCases is a rate as Fluid's piecewise_decay builds it: each case of a switch sets it.
func byCases(step layers.Variable) layers.Variable {
	m := step.Model()
	number := func(value float64) layers.Variable { return layers.FillConstant(m, value, []int64{1}) }
	rate := m.State(m.UniqueName("rate"), tensor.Float32, []int64{1}, layers.Constant(0))
	layers.Switch(m,
		layers.SwitchCase{If: layers.LessThan(step, number(2)), Then: func() { layers.AssignTo(rate, number(0.05)) }},
		layers.SwitchCase{Then: func() { layers.AssignTo(rate, number(0.02)) }})
	return rate
}

var schedules = map[string]optimizer.Schedule{
	"exponential": optimizer.Exponential(0.05, 2, 0.5, false),
	"natural":     optimizer.NaturalExp(0.05, 2, 0.5, true),
	"inverse":     optimizer.InverseTime(0.05, 1, 0.5, false),
	"polynomial":  optimizer.Polynomial(0.05, 4, 0.001, 2, true),
	"piecewise":   optimizer.Piecewise([]int{1, 3}, []float64{0.05, 0.02, 0.01}),
	"switch":      byCases,
	"cosine":      optimizer.Cosine(0.05, 1, 200),
	"noam":        optimizer.Noam(64, 2),
	"warmup":      optimizer.LinearWarmup(0.05, 2, 0.001, 0.05),
}
