package bench

import (
	"math/rand/v2"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// batches is the number of different batches of a model that trains. The steps take them in turn, so that no step finds its input in the nearest
// cache.
const batches = 16

// A builder is a model under construction, with its batches and its amount of work.
type builder struct {
	*layers.Model
	random *rand.Rand
	feeds  []executor.Feed // as many as there are batches
	flops  int64
	rows   map[string]int64 // looked up in a step, by the parameter of the table
	tables tables
	err    error // the first mistake in arguments

	// Of a model that reads its batches: the inputs by name. nil for a model that is fed.
	inputs map[string]layers.Variable
	// The inputs in the order in which the model declares them.
	declared []string
}

func newBuilder() *builder {
	return &builder{Model: layers.NewModel().Seed(1), random: rand.New(rand.NewPCG(1, 2)), rows: map[string]int64{}}
}

// input declares an input that is fed or read.
func (b *builder) input(name string, dtype tensor.DType, options ...layers.Option) layers.Variable {
	b.declared = append(b.declared, name)
	if v, read := b.inputs[name]; read {
		return v
	}
	return layers.Data(b.Model, name, append(options, layers.DType(dtype))...)
}

// numbers declares an input of float32 numbers in [0, 1), with a value for every batch.
func (b *builder) numbers(name string, batch int64, dims ...int64) layers.Variable {
	feed(b, name, batch, dims, b.random.Float32)
	return b.input(name, tensor.Float32, layers.Dims(dims...))
}

// choices declares an input of int64 numbers in [0, n), with a value for every batch.
func (b *builder) choices(name string, n, batch int64, dims ...int64) layers.Variable {
	feed(b, name, batch, dims, func() int64 { return b.random.Int64N(n) })
	return b.input(name, tensor.Int64, layers.Dims(dims...))
}

func feed[T tensor.Element](b *builder, name string, batch int64, dims []int64, draw func() T) {
	dims = append([]int64{batch}, dims...)
	if b.feeds == nil {
		b.feeds = make([]executor.Feed, batches)
	}
	for i := range b.feeds {
		if b.feeds[i] == nil {
			b.feeds[i] = executor.Feed{}
		}
		data := make([]T, elements(dims))
		for j := range data {
			data[j] = draw()
		}
		t, err := tensor.FromSlice(data, dims...)
		if err != nil && b.err == nil {
			b.err = err
		}
		b.feeds[i][name] = t
	}
}

// tables says who has the tables of a model that is trained on a cluster.
type tables int

const (
	heldTables        tables = iota // each trainer
	distributedTables               // pservers alone
	growingTables                   // pservers alone, for keys
)

// table looks up ids in a table with sparse gradients. looked is the number of ids of a step. A table that grows has room for all ids and a third more.
func (b *builder) table(ids layers.Variable, name string, vocabulary, width, looked int64, init layers.Initializer) layers.Variable {
	b.rows[name] = looked
	named := layers.Param(layers.ParamAttr{Name: name, Initializer: init})
	switch b.tables {
	case distributedTables:
		return layers.Embedding(ids, vocabulary, width, layers.Sparse(), layers.Distributed(), named)
	case growingTables:
		return layers.SparseEmbedding(ids, vocabulary*4/3, width, named)
	}
	return layers.Embedding(ids, vocabulary, width, layers.Sparse(), named)
}

// bytes returns Workload.Bytes for an optimizer that keeps a number of values for each element of a parameter.
func (b *builder) bytes(slots int64) int64 {
	total := int64(0)
	for _, parameter := range b.Parameters() {
		dims := parameter.Dims()
		if looked, sparse := b.rows[parameter.Name()]; sparse {
			dims[0] = min(dims[0], looked)
		}
		total += 4 * 2 * (1 + slots) * elements(dims)
	}
	return total
}

// multiplies counts a matrix product or convolution with so many products in the forward pass. The gradient of its weights takes as many, and so
// does the gradient of its input unless the input is fed.
func (b *builder) multiplies(products int64, fed bool) {
	passes := int64(3)
	if fed {
		passes = 2
	}
	b.flops += passes * 2 * products
}

// classify appends the mean cross-entropy of logits to labels that are drawn at random.
func (b *builder) classify(logits layers.Variable, batch, classes int64) layers.Variable {
	cost, _ := layers.SoftmaxWithCrossEntropy(logits, b.choices("label", classes, batch, 1))
	return layers.Mean(cost, layers.Name("loss"))
}
