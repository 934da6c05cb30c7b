package bench

import (
	"math"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// Sizes of the models of sentences: what PaddlePaddle's benchmark of LSTM had.
const (
	sentences  = 128
	vocabulary = 5147
	embedded   = 128
	units      = 512
)

// lstm classifies the sentiment of sentences of one length: long short-term memory over embedded words, and the largest of each of its outputs.
func lstm(b *builder, _ string) layers.Variable {
	const length = 100
	return b.recurrent(b.sentences(func() int64 { return length }), 4, sentences*(length-1), longShortTermMemory)
}

// raggedLSTM is lstm for sentences of 5 to 100 words.
func raggedLSTM(b *builder, _ string) layers.Variable {
	words := b.sentences(b.length)
	return b.recurrent(words, 4, b.words()-sentences, longShortTermMemory)
}

// raggedGRU is raggedLSTM with gated recurrent units.
func raggedGRU(b *builder, _ string) layers.Variable {
	words := b.sentences(b.length)
	return b.recurrent(words, 3, b.words()-sentences, func(gates layers.Variable) layers.Variable { return layers.DynamicGRU(gates, units) })
}

func longShortTermMemory(gates layers.Variable) layers.Variable {
	state, _ := layers.DynamicLSTM(gates, 4*units, layers.NoPeepholes())
	return state
}

// length draws the length of a sentence.
func (b *builder) length() int64 { return 5 + b.random.Int64N(96) }

// recurrent classifies sentences by the largest of each output of a recurrent layer, which has so many products with each of its units. Those with what
// comes from the step before are made for so many words.
func (b *builder) recurrent(words layers.Variable, products, after int64, layer func(gates layers.Variable) layers.Variable) layers.Variable {
	state := layer(layers.FC(layers.Embedding(words, vocabulary, embedded), products*units))
	b.multiplies(b.words()*embedded*products*units, false)
	b.multiplies(after*units*products*units, false) // nothing comes before the first step
	b.multiplies(sentences*units*2, false)
	return b.classify(layers.FC(layers.SequencePool(state, "max"), 2), sentences, 2)
}

// sentimentConv classifies sentences of 5 to 100 words by convolutions over 3 and over 4 words, each summed up and divided by the root of the length.
func sentimentConv(b *builder, _ string) layers.Variable {
	const filters = 128
	words := layers.Embedding(b.sentences(b.length), vocabulary, embedded)
	var pooled []layers.Variable
	for _, size := range []int{3, 4} {
		pooled = append(pooled, layers.SequenceConvPool(words, filters, size, "sqrt", layers.Act("tanh")))
		b.multiplies(b.words()*int64(size)*embedded*filters, false)
	}
	b.multiplies(sentences*2*filters*2, false)
	return b.classify(layers.FCs(pooled, 2), sentences, 2)
}

// sentences declares an input of words, with a value for every batch of sentences, whose lengths are drawn. All batches have the same number of words, in
// different orders of the lengths, so that their work is the same.
func (b *builder) sentences(length func() int64) layers.Variable {
	lengths := make([]int64, sentences)
	total := int64(0)
	for i := range lengths {
		lengths[i] = length()
		total += lengths[i]
	}
	feed(b, "words", total, []int64{1}, func() int64 { return b.random.Int64N(vocabulary) })
	for _, f := range b.feeds {
		b.random.Shuffle(sentences, func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
		offsets := make([]int64, sentences+1)
		for i, n := range lengths {
			offsets[i+1] = offsets[i] + n
		}
		f["words"].SetLoD([][]int64{offsets})
	}
	return layers.Data(b.Model, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
}

// words is the number of words of a batch.
func (b *builder) words() int64 { return b.feeds[0]["words"].Dims()[0] }

// transformer translates sentences of 64 words (Vaswani et al. 2017, the base size, normalized before each layer): the mean cross-entropy of the next word, with smoothed
// labels and without dropout. Its argument is the number of sentences; without one it is 8.
func transformer(b *builder, arguments string) layers.Variable {
	t := attention{builder: b, batch: batchOf(b, arguments, 8), length: 64, heads: 8, width: 512, inner: 2048}
	const words, depth, smoothing = 10000, 6, 0.1
	embed := func(name string) layers.Variable {
		h := layers.Embedding(b.choices(name, words, t.batch, t.length, 1), words, t.width, layers.Param(layers.ParamAttr{Initializer: layers.Normal(0, math.Pow(float64(t.width), -0.5))}))
		place := layers.Embedding(b.choices(name+" place", t.length, t.batch, t.length, 1), t.length, t.width)
		return layers.Add(layers.Scale(h, math.Sqrt(float64(t.width)), 0), place)
	}
	encoded := embed("source")
	for range depth {
		encoded = t.residual(encoded, func(x layers.Variable) layers.Variable { return t.attend(x, x, nil) })
		encoded = t.residual(encoded, t.feedForward)
	}
	encoded = t.normalized(encoded)
	decoded := embed("target")
	for range depth {
		decoded = t.residual(decoded, func(x layers.Variable) layers.Variable { return t.attend(x, x, t.later) })
		decoded = t.residual(decoded, func(x layers.Variable) layers.Variable { return t.attend(x, encoded, nil) })
		decoded = t.residual(decoded, t.feedForward)
	}
	b.multiplies(t.batch*t.length*t.width*words, false)
	scores := layers.Reshape(layers.FC(t.normalized(decoded), words, layers.NumFlattenDims(2)), []int64{-1, words})
	label := layers.Reshape(b.choices("label", words, t.batch, t.length, 1), []int64{-1, 1})
	sharp := layers.Op(b.Model, "one_hot", layers.In{"X": {label}}, layers.Attrs{"depth": words}).One("Out")
	smooth := layers.Op(b.Model, "label_smooth", layers.In{"X": {sharp}}, layers.Attrs{"epsilon": smoothing}).One("Out")
	cost, _ := layers.SoftmaxWithCrossEntropy(scores, smooth, layers.SoftLabel())
	return layers.Mean(cost, layers.Name("loss"))
}

// attention is what the layers of a transformer share.
type attention struct {
	*builder
	batch, length, heads, width, inner int64
	mask                               layers.Variable // of later words, once there is one
	masked                             bool
}

// later adds a large negative number to matches with later words.
func (t *attention) later(match layers.Variable) layers.Variable {
	if !t.masked {
		t.masked = true
		feed(t.builder, "later", t.length, []int64{t.length}, func() float32 { return 0 })
		for _, f := range t.feeds {
			for i, v := 0, f["later"].Float32s(); i < len(v); i++ {
				if n := int(t.length); i%n > i/n {
					v[i] = -1e9
				}
			}
		}
		t.mask = t.input("later", tensor.Float32, layers.Dims(t.length, t.length), layers.NoBatchDim())
	}
	return layers.Add(match, t.mask, layers.Axis(2))
}

func (t *attention) normalized(x layers.Variable) layers.Variable {
	return layers.LayerNorm(x, layers.BeginNormAxis(2))
}

func (t *attention) residual(x layers.Variable, inner func(layers.Variable) layers.Variable) layers.Variable {
	return layers.Add(x, inner(t.normalized(x)))
}

func (t *attention) connected(x layers.Variable, from, to int64, options ...layers.Option) layers.Variable {
	t.multiplies(t.batch*t.length*from*to, false)
	return layers.FC(x, to, append(options, layers.NumFlattenDims(2))...)
}

func (t *attention) feedForward(x layers.Variable) layers.Variable {
	return t.connected(t.connected(x, t.width, t.inner, layers.Act("relu")), t.inner, t.width)
}

// attend lets each word look at those of memory; mask, which may be nil, changes how well they match.
func (t *attention) attend(queries, memory layers.Variable, mask func(layers.Variable) layers.Variable) layers.Variable {
	heads := func(x layers.Variable) layers.Variable {
		x = layers.Reshape(t.connected(x, t.width, t.width), []int64{-1, t.length, t.heads, t.width / t.heads})
		return layers.Transpose(x, []int{0, 2, 1, 3})
	}
	match := layers.MatMul(heads(queries), heads(memory), layers.TransposeY(), layers.Alpha(math.Pow(float64(t.width/t.heads), -0.5)))
	if mask != nil {
		match = mask(match)
	}
	found := layers.MatMul(layers.Softmax(match), heads(memory))
	t.multiplies(2*t.batch*t.length*t.length*t.width, false)
	return t.connected(layers.Reshape(layers.Transpose(found, []int{0, 2, 1, 3}), []int64{-1, t.length, t.width}), t.width, t.width)
}
