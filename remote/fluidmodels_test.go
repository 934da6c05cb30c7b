package remote_test

import (
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// whole asks for the published sizes of the models.
var whole = flag.Bool("whole", false, "train the models of Fluid's distributed tests in their published sizes")

// sized returns the published size of a part of a model, or a smaller one.
func sized[T any](published, smaller T) T {
	if *whole {
		return published
	}
	return smaller
}

// A fluidModel is one of the models with which Fluid tested its transpiler: what the batch brings, and the cost that training minimizes.
type fluidModel struct {
	inputs []input
	cost   func(m *layers.Model, in []layers.Variable) layers.Variable // a loss
	update *optimizer.Optimizer
	rows   int64 // of a batch that four trainers can share
}

func ids(name string, lod int) input { return input{name, tensor.Int64, []int64{1}, lod} }

// A start says how the parameters of a model begin.
type start func(value float64) layers.Initializer

// parameter makes a parameter, which has a name if it is shared.
func (s start) parameter(value float64, name string) layers.Option {
	return layers.Param(layers.ParamAttr{Name: name, Initializer: s(value)})
}

// drawn draws parameters. In Fluid's tests some are constants, so that many units of a layer learn the same: the models that come of it tell little.
func drawn(float64) layers.Initializer { return layers.Xavier() }

func classified(scores, label layers.Variable) layers.Variable {
	return layers.Mean(layers.CrossEntropy(layers.Softmax(scores), label), layers.Name("loss"))
}

// fluidModels are the models of Fluid's distributed tests by name.
func fluidModels(begin start) map[string]fluidModel {
	picture := sized[int64](224, 32)
	length, heads := sized[int64](64, 7), sized[int64](8, 2)
	return map[string]fluidModel{
		"mnist": {
			inputs: []input{{"pixel", tensor.Float32, []int64{1, 28, 28}, 0}, ids("label", 0)},
			cost:   begin.digits, update: optimizer.Momentum(0.001, 0.9), rows: 4,
		},
		"mnist_lars": {
			inputs: []input{{"pixel", tensor.Float32, []int64{1, 28, 28}, 0}, ids("label", 0)},
			cost:   begin.digits, update: optimizer.LarsMomentum(0.001, 0.9, 0.001), rows: 4,
		},
		"simnet_bow": {
			inputs: []input{ids("query", 1), ids("positive", 1), ids("negative", 1)},
			cost:   begin.simnet, update: optimizer.SGD(0.2), rows: 8,
		},
		"se_resnext": {
			inputs: []input{{"image", tensor.Float32, []int64{3, picture, picture}, 0}, ids("label", 0)},
			cost:   seResNeXt,
			update: optimizer.Momentum(optimizer.Piecewise([]int{3, 6, 9}, []float64{0.1, 0.01, 0.001, 0.0001}), 0.9, optimizer.Regularize(layers.L2(1e-4))), rows: 4,
		},
		"word2vec": {
			inputs: []input{ids("first", 0), ids("second", 0), ids("third", 0), ids("fourth", 0), ids("next", 0)},
			cost:   begin.word2vec, update: optimizer.SGD(0.001), rows: 8,
		},
		"ctr": {
			inputs: []input{ids("dnn_data", 1), ids("lr_data", 1), ids("click", 0)},
			cost:   begin.wideAndDeep, update: optimizer.SGD(0.0001, optimizer.Regularize(layers.L2(0.1))), rows: 8,
		},
		"text_classification": {
			inputs: []input{ids("words", 1), ids("label", 0)},
			cost:   textClassification, update: optimizer.SGD(0.001), rows: 8,
		},
		"transformer": {
			inputs: []input{{"src_word", tensor.Int64, []int64{length, 1}, 0}, {"src_pos", tensor.Int64, []int64{length, 1}, 0},
				{"src_slf_attn_bias", tensor.Float32, []int64{heads, length, length}, 0},
				{"trg_word", tensor.Int64, []int64{length, 1}, 0}, {"trg_pos", tensor.Int64, []int64{length, 1}, 0},
				{"trg_slf_attn_bias", tensor.Float32, []int64{heads, length, length}, 0}, {"trg_src_attn_bias", tensor.Float32, []int64{heads, length, length}, 0},
				{"lbl_word", tensor.Int64, []int64{length, 1}, 0}},
			cost:   transformer{length: length, heads: heads, width: sized[int64](512, 16), inner: sized[int64](2048, 24), layers: sized(6, 2), words: sized[int64](10000, 13)}.cost,
			update: optimizer.Adam(optimizer.Noam(sized(512, 16), 4000), optimizer.Betas(0.9, 0.98), optimizer.Epsilon(1e-9)), rows: 4,
		},
	}
}

// digits is the network of two convolutions.
func (s start) digits(_ *layers.Model, in []layers.Variable) layers.Variable {
	h := layers.SimpleImgConvPool(in[0], 20, 5, 2, 2, layers.Act("relu"), s.parameter(0.01, ""))
	h = layers.SimpleImgConvPool(h, 50, 5, 2, 2, layers.Act("relu"), s.parameter(0.01, ""))
	return classified(layers.FC(h, 10, s.parameter(0.01, "")), in[1])
}

// seResNeXt is the residual network with grouped convolutions, whose channels are weighed by squeeze and excitation (Hu et al. 2017).
func seResNeXt(_ *layers.Model, in []layers.Variable) layers.Variable {
	groups, reduction := sized(32, 4), sized[int64](16, 4)
	convolution := func(x layers.Variable, filters, size int64, stride, groups int, opts ...layers.Option) layers.Variable {
		pad := int(size-1) / 2
		h := layers.Conv2D(x, filters, size, layers.Stride(stride, stride), layers.Padding(pad, pad), layers.Groups(groups), layers.NoBias())
		return layers.BatchNorm(h, opts...)
	}
	block := func(x layers.Variable, filters int64, stride int) layers.Variable {
		h := convolution(x, filters, 1, 1, 1, layers.Act("relu"))
		h = convolution(h, filters, 3, stride, groups, layers.Act("relu"))
		h = convolution(h, filters*2, 1, 1, 1)
		squeezed := layers.FC(layers.Pool2D(h, 1, layers.AvgPool(), layers.GlobalPooling()), filters*2/reduction, layers.Act("relu"))
		excited := layers.FC(squeezed, filters*2, layers.Act("sigmoid"))
		h = layers.Mul(h, excited, layers.Axis(0))
		if x.Dims()[1] != filters*2 || stride != 1 {
			x = convolution(x, filters*2, 1, stride, 1)
		}
		return layers.Add(x, h, layers.Act("relu"))
	}
	h := convolution(in[0], sized[int64](64, 8), 7, 2, 1, layers.Act("relu"))
	h = layers.Pool2D(h, 3, layers.Stride(2, 2), layers.Padding(1, 1))
	for i, depth := range sized([]int{3, 4, 6, 3}, []int{1, 2}) {
		for j := range depth {
			stride := 1
			if j == 0 && i > 0 {
				stride = 2
			}
			h = block(h, sized[int64](128, 8)<<i, stride)
		}
	}
	h = layers.Dropout(layers.Pool2D(h, 1, layers.AvgPool(), layers.GlobalPooling()), 0.2)
	return classified(layers.FC(h, 102), in[1])
}

// word2vec predicts a word from four before it, which share one sparse table.
func (s start) word2vec(_ *layers.Model, in []layers.Variable) layers.Variable {
	words := sized[int64](2073, 11)
	var vectors []layers.Variable
	for _, word := range in[:4] {
		vectors = append(vectors, layers.Embedding(word, words, 32, layers.Sparse(), s.parameter(0.1, "shared_w")))
	}
	hidden := layers.FC(layers.Concat(vectors, 1), 256, layers.Act("sigmoid"), s.parameter(0.1, ""))
	return classified(layers.FC(hidden, words, s.parameter(0.1, "")), in[4])
}

// wideAndDeep predicts clicks by the pooled rows of a wide and of a narrow table.
func (s start) wideAndDeep(_ *layers.Model, in []layers.Variable) layers.Variable {
	pooled := func(ids layers.Variable, name string, width int64) layers.Variable {
		table := layers.Embedding(ids, sized[int64](10000, 11), width, layers.Sparse(), s.parameter(0.01, name))
		return layers.SequencePool(table, "sum")
	}
	deep := pooled(in[0], "deep_embedding", 128)
	for _, size := range []int64{64, 32, 1} {
		deep = layers.FC(deep, size, layers.Act("relu"), s.parameter(0.01, ""))
	}
	return classified(layers.FC(layers.Concat([]layers.Variable{deep, pooled(in[1], "wide_embedding", 1)}, 1), 2+1, s.parameter(0.01, "")), in[2])
}

// simnet tells which of two titles belongs to a query: the cosine between bags of words of one should be larger by a margin. The three towers share a table and a
// layer, whose parameters have rates of their own.
func (s start) simnet(_ *layers.Model, in []layers.Variable) layers.Variable {
	tower := func(words layers.Variable) layers.Variable {
		table := layers.ParamAttr{Name: "__emb__", Initializer: s(0.1), LearningRate: 0.6}
		h := layers.SequencePool(layers.Embedding(words, sized[int64](1500, 11), 128, layers.Sparse(), layers.Param(table)), "sum")
		return layers.FC(layers.Softsign(h), 128, layers.Param(layers.ParamAttr{Name: "__fc__", Initializer: s(0.01), LearningRate: 0.2}),
			layers.Bias(layers.ParamAttr{Name: "__fc_b__"}))
	}
	query := tower(in[0])
	near, far := layers.CosSim(query, tower(in[1])), layers.CosSim(query, tower(in[2]))
	return layers.Mean(layers.Relu(layers.Scale(layers.Sub(far, near), 1, 0.1)), layers.Name("loss"))
}

// textClassification tells the sort of a text by convolutions over its words.
func textClassification(_ *layers.Model, in []layers.Variable) layers.Variable {
	words := layers.Embedding(in[0], sized[int64](30000, 11), 128)
	pooled := layers.SequenceConvPool(words, 128, 3, "max", layers.Act("tanh"))
	return classified(layers.FC(layers.FC(pooled, 96), testkit.Classes), in[1])
}

// A transformer translates (Vaswani et al. 2017), with sizes of its own and without dropout. Sentences are padded to length. A target word 0 is padding.
type transformer struct {
	length, heads, width, inner, words int64
	layers                             int
}

func (t transformer) cost(m *layers.Model, in []layers.Variable) layers.Variable {
	encoded := t.embed(in[0], in[1], "src")
	for range t.layers {
		encoded = t.residual(encoded, func(x layers.Variable) layers.Variable { return t.attend(x, x, in[2]) })
		encoded = t.residual(encoded, t.feedForward)
	}
	encoded = t.normalized(encoded)
	decoded := t.embed(in[3], in[4], "trg")
	for range t.layers {
		decoded = t.residual(decoded, func(x layers.Variable) layers.Variable { return t.attend(x, x, in[5]) })
		decoded = t.residual(decoded, func(x layers.Variable) layers.Variable { return t.attend(x, encoded, in[6]) })
		decoded = t.residual(decoded, t.feedForward)
	}
	scores := layers.Reshape(layers.FC(t.normalized(decoded), t.words, layers.NumFlattenDims(2), layers.NoBias()), []int64{-1, t.words})
	label := layers.Reshape(in[7], []int64{-1, 1})
	sharp := layers.Op(m, "one_hot", layers.In{"X": {label}}, layers.Attrs{"depth": t.words}).One("Out")
	smooth := layers.Op(m, "label_smooth", layers.In{"X": {sharp}}, layers.Attrs{"epsilon": 0.1}).One("Out")
	cost, _ := layers.SoftmaxWithCrossEntropy(scores, smooth, layers.SoftLabel())
	weight := layers.Clip(layers.Cast(label, tensor.Float32), 0, 1)
	return layers.Div(layers.ReduceSum(layers.Mul(cost, weight)), layers.ReduceSum(weight), layers.Name("loss"))
}

func (t transformer) embed(word, position layers.Variable, side string) layers.Variable {
	table := func(ids layers.Variable, name string, rows int64) layers.Variable {
		return layers.Embedding(ids, rows, t.width, layers.Param(layers.ParamAttr{Name: side + name, Initializer: layers.Normal(0, math.Pow(float64(t.width), -0.5))}))
	}
	return layers.Add(layers.Scale(table(word, "_word_emb_table", t.words), math.Sqrt(float64(t.width)), 0), table(position, "_pos_enc_param_table", t.length))
}

func (t transformer) normalized(x layers.Variable) layers.Variable {
	return layers.LayerNorm(x, layers.BeginNormAxis(2))
}

func (t transformer) residual(x layers.Variable, inner func(layers.Variable) layers.Variable) layers.Variable {
	return layers.Add(x, inner(t.normalized(x)))
}

func (t transformer) feedForward(x layers.Variable) layers.Variable {
	return layers.FC(layers.FC(x, t.inner, layers.NumFlattenDims(2), layers.Act("relu")), t.width, layers.NumFlattenDims(2))
}

// attend is attention of several heads. bias masks padding and what comes later.
func (t transformer) attend(queries, memory, bias layers.Variable) layers.Variable {
	of := func(x layers.Variable) layers.Variable {
		x = layers.FC(x, t.width, layers.NumFlattenDims(2), layers.NoBias())
		return layers.Transpose(layers.Reshape(x, []int64{-1, t.length, t.heads, t.width / t.heads}), []int{0, 2, 1, 3})
	}
	match := layers.MatMul(of(queries), of(memory), layers.TransposeY(), layers.Alpha(math.Pow(float64(t.width/t.heads), -0.5)))
	found := layers.MatMul(layers.Softmax(layers.Add(match, bias)), of(memory))
	joined := layers.Reshape(layers.Transpose(found, []int{0, 2, 1, 3}), []int64{-1, t.length, t.width})
	return layers.FC(joined, t.width, layers.NumFlattenDims(2), layers.NoBias())
}

// build makes the program, which reads its inputs if reader is set.
func (f fluidModel) build(t *testing.T, reader func(layers.Reader) layers.Reader) subject {
	m := layers.NewModel().Seed(1)
	loss := f.cost(m, declare(m, f.inputs, reader))
	f.update.Minimize(loss)
	return subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}, inputs: f.inputs}
}

// TestFluidModels trains each model of Fluid's distributed tests for 10 steps on 2 trainers and 2 pservers. All values are those of the reference, to the
// bit, where Fluid's tests allowed differences of 1e-7 to 1e-4.
func TestFluidModels(t *testing.T) {
	if testing.Short() {
		t.Skip("training large models takes too long with -short")
	}
	models := fluidModels(layers.Constant)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		f := models[name]
		t.Run(name, func(t *testing.T) {
			s := f.build(t, nil)
			spec := &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: sized[int64](8192, 64), Save: t.TempDir()}
			want, err := oracleFor(s.Program, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if err := checkFedLaw(listener(t), s, spec, slices.Repeat([]int64{f.rows}, 10), want); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A convergence is how a model learns 48 records by heart: with which rule, in how many passes, and what its loss is below at the end. Each trainer takes half of
// the steps, with gradients of parameters that the other one has changed meanwhile.
type convergence struct {
	model  string
	update *optimizer.Optimizer
	passes int
	below  float64
	parts  int // executors that train passes/parts each. Each after the first loads what the one before has saved
}

// TestFluidModelsConvergeInAsyncMode trains the nine models of Fluid's distributed tests on 2 trainers that do not wait for each other. The loss over all records, of
// what they have saved, is below a bound that a local run reaches, too, and that lies far below the loss at the start. The bounds of Fluid's tests, 1 to 200, said nothing. Without EDL_LONG
// it trains two of the models.
func TestFluidModelsConvergeInAsyncMode(t *testing.T) {
	if testing.Short() {
		t.Skip("training large models takes too long with -short")
	}
	long := map[string]convergence{
		"mnist":               {"mnist", optimizer.Momentum(0.005, 0.5), 60, 0.3, 1},
		"mnist_lars":          {"mnist_lars", optimizer.LarsMomentum(1, 0.5, 0.001), 60, 0.8, 1},
		"se_resnext":          {"se_resnext", optimizer.Momentum(0.01, 0.5, optimizer.Regularize(layers.L2(1e-4))), 60, 0.7, 1},
		"ctr":                 {"ctr", optimizer.SGD(0.1), 400, 1, 1}, // the one unit of its deep part may die: then a constant answers, with 0.96
		"text_classification": {"text_classification", optimizer.Adagrad(0.02), 60, 0.4, 1},
		"transformer":         {"transformer", optimizer.Adam(0.002), 60, 1.2, 1},
		"save_load":           {"simnet_bow", optimizer.Adam(0.01), 60, 0.08, 2},
	}
	short := map[string]convergence{
		"word2vec":   {"word2vec", optimizer.Adagrad(0.02), 60, 1, 1},
		"simnet_bow": {"simnet_bow", optimizer.SGD(2), 60, 0.08, 1},
	}
	if os.Getenv("EDL_LONG") != "" {
		maps.Copy(short, long)
	}
	for name, c := range short {
		t.Run(name, func(t *testing.T) {
			f := fluidModels(drawn)[c.model]
			f.update = c.update
			s := f.build(t, func(r layers.Reader) layers.Reader { return layers.Batch(layers.Shuffle(r, 48, 1), 8) })
			data := testkit.Records(t, t.TempDir(), 48, func(i int) (record []*tensor.Tensor) {
				for k, in := range s.inputs {
					record = append(record, in.learned(t, uint64(i*7+k)))
				}
				return record
			})
			before := lossOf(t, s.Program, "", data)
			alone := lossOf(t, s.Program, c.train(t, s.Program, data, func() executor.Executor { return executor.New() }), data)
			l := listener(t)
			together := lossOf(t, s.Program, c.train(t, s.Program, data, func() executor.Executor {
				return executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, Mode: job.Mode_ASYNC, RecordsPerTask: 8})
			}), data)
			if alone >= c.below || together >= c.below {
				t.Errorf("after %d passes the loss is %g, on one machine %g, want below %g; at the start it is %g", c.passes, together, alone, c.below, before)
			}
			t.Logf("the loss is %.3f at the start; after %d passes %.3f on two trainers in async mode, %.3f on one machine", before, c.passes, together, alone)
		})
	}
}

// learned draws a value of which there are enough that few records look alike: 3 classes, 7 words, sequences of 1 to 5.
func (in input) learned(t *testing.T, seed uint64) *tensor.Tensor {
	random := rand.New(rand.NewPCG(seed, 3))
	dims := in.dims
	if in.lod > 0 {
		dims = append([]int64{1 + random.Int64N(5)}, in.dims...)
	}
	value := testkit.Random(t, in.dtype, seed, dims...)
	if in.dtype == tensor.Int64 && in.name != "label" && in.name != "click" {
		for at := range value.Int64s() {
			value.Int64s()[at] = random.Int64N(7)
		}
	}
	if in.lod > 0 {
		value.SetLoD([][]int64{{0, dims[0]}})
	}
	return value
}

// train trains p in its parts, each on an executor of its own, and returns the directory of the state.
func (c convergence) train(t *testing.T, p *program.Program, data map[string][]string, next func() executor.Executor) string {
	from := ""
	for range c.parts {
		to := t.TempDir()
		exe := next()
		if _, err := exe.Train(bounded(t), p, executor.TrainOptions{Data: data, Passes: c.passes / c.parts, Params: from, Save: to}, nil); err != nil {
			t.Fatal(err)
		}
		if err := exe.Close(); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	return from
}

// lossOf returns the loss of a saved state, as the mean over the batches of data.
func lossOf(t *testing.T, p *program.Program, from string, data map[string][]string) float64 {
	exe := executor.New()
	defer exe.Close()
	var losses []float64
	_, err := exe.Train(bounded(t), p.CloneForTest(), executor.TrainOptions{Data: data, Params: from, Fetch: []string{"loss"}}, func(r executor.StepResult) error {
		losses = append(losses, executor.Scalar(r.Fetched[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return mean(losses)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
