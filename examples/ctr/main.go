// Ctr predicts whether somebody clicks on an advertisement, from categories and numbers, by DeepFM (Guo et al. 2017): a linear model, a factorization
// machine for pairs of categories, and a network for the rest. It is where a recommender system starts.
//
//	go run ./examples/ctr -out /tmp/ctr
//	go run ./examples/ctr -criteo train.txt -criteo-test test.txt -out /tmp/ctr
//	go run ./examples/ctr -adult adult.data -out /tmp/ctr
//	go run ./examples/ctr -tables growing -out /tmp/ctr
//
// Lines of Criteo are a label, 13 numbers and 26 categories, with tabs between them. Where the numbers are binned already, -binned makes them categories,
// too. Adult is a table of people, of whom those with a high income stand for clicks; every fifth is held out. Without a file it makes up clicks.
//
// A category is any text. Its hash is its row in two tables of 1,000,001 rows, so there is no list of categories to build before training. A
// step touches only the rows of its batch: layers.Sparse makes gradients that have no other rows, and optimizer.Lazy updates no other rows.
//
// -tables says who has the tables. With local each trainer holds them: the least to wait for, while they are small. With distributed only pservers have them, so
// they may be larger than the memory of a machine. With growing the hash of 64 bits is a key: categories share no row, a row begins to exist when it is
// first trained, and the keys that nobody has seen for the longest time go when there is no room.
package main

import (
	"flag"
	"math"
	"os"

	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A shape is what the data say of the network.
type shape struct {
	categories, numbers int64 // of a record
	vocabulary          int64 // ids of categories, or rows that there is room for in a table that grows
	tables              string
}

// Values of -tables.
const (
	local       = "local"
	distributed = "distributed"
	growing     = "growing"
)

const (
	vocabulary = 1000001
	width      = 10  // numbers in the vector of a category
	hidden     = 400 // units of each of three hidden layers
)

// uniform draws the weight or bias of a layer with so many inputs.
func uniform(inputs int64) layers.ParamAttr {
	limit := 1 / math.Sqrt(float64(inputs))
	return layers.ParamAttr{Initializer: layers.Uniform(-limit, limit)}
}

func connected(x layers.Variable, inputs, size int64, opts ...layers.Option) layers.Variable {
	return layers.FC(x, size, append(opts, layers.Param(uniform(inputs)), layers.Bias(uniform(inputs)))...)
}

// deepFM returns the logit of a click. ids is [rows, categories, 1], numbers [rows, numbers], and poisoned if there are none.
func (s shape) deepFM(ids, numbers layers.Variable) layers.Variable {
	table := func(name string, width int64, init layers.Initializer) layers.Variable {
		named := layers.Param(layers.ParamAttr{Name: name, Initializer: init})
		switch s.tables {
		case growing:
			return layers.SparseEmbedding(ids, s.vocabulary, width, named, layers.EvictOldest())
		case distributed:
			return layers.Embedding(ids, s.vocabulary, width, named, layers.Sparse(), layers.Distributed())
		}
		return layers.Embedding(ids, s.vocabulary, width, named, layers.Sparse())
	}
	// One weight for each category and number.
	linear := []layers.Variable{layers.ReduceSum(table("weights", 1, layers.Constant(0)), layers.Axes(1))}
	if s.numbers > 0 {
		linear = append(linear, connected(numbers, s.numbers, 1))
	}

	// The sum of the products of all pairs of vectors is half of (the square of their sum - the sum of their squares).
	vectors := table("vectors", width, layers.Uniform(-1e-3, 1e-3))
	sum := layers.ReduceSum(vectors, layers.Axes(1))
	pairs := layers.Sub(layers.Square(sum), layers.ReduceSum(layers.Square(vectors), layers.Axes(1)))
	machine := layers.Scale(layers.ReduceSum(pairs, layers.Axes(1), layers.KeepDims()), 0.5, 0)

	inputs := s.categories * width
	h := layers.Reshape(vectors, []int64{-1, inputs})
	if s.numbers > 0 {
		h = layers.Concat([]layers.Variable{h, numbers}, 1)
		inputs += s.numbers
	}
	for range 3 {
		h = connected(h, inputs, hidden, layers.Act("relu"))
		inputs = hidden
	}
	return layers.Sums(append(linear, machine, connected(h, inputs, 1)))
}

// evaluate reads a dataset, in a shuffled order if order is not 0, and returns the loss and the AUC of a batch: how probable it is that a click has a
// larger prediction than no click.
func (s shape) evaluate(m *layers.Model, data string, order, batch int) (loss, auc layers.Variable) {
	fields := []layers.FieldSpec{layers.Field("ids", layers.Dims(s.categories, 1), layers.DType(tensor.Int64))}
	if s.numbers > 0 {
		fields = append(fields, layers.Field("numbers", layers.Dims(s.numbers)))
	}
	clicks := layers.OpenDataset(m, data, append(fields, layers.Field("clicked", layers.Dims(1), layers.DType(tensor.Int64)))...)
	if order > 0 {
		clicks = layers.Shuffle(clicks, order, 1)
	}
	read := layers.Read(layers.DoubleBuffer(layers.Batch(clicks, batch)))
	ids, clicked := read[0], read[len(read)-1]
	var numbers layers.Variable
	if s.numbers > 0 {
		numbers = read[1]
	}
	logit := s.deepFM(ids, numbers)
	cost := layers.SigmoidCrossEntropyWithLogits(logit, layers.Cast(clicked, tensor.Float32))
	return layers.Mean(cost, layers.Name("loss")), layers.AUC(layers.Sigmoid(logit, layers.Name("click")), clicked, layers.Name("auc"))
}

func (s shape) train() (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	loss, _ := s.evaluate(m, "train", 10000, 512)
	optimizer.Adam(1e-3, optimizer.Lazy()).Minimize(loss)
	return m.Program()
}

// test is the same network without an optimizer. Its batches are as large as the test sets here, so that an AUC is that of the whole set.
func (s shape) test() (*program.Program, error) {
	m := layers.NewModel()
	s.evaluate(m, "test", 0, 10000)
	return m.Program()
}

func main() {
	var f files
	flag.StringVar(&f.criteo, "criteo", "", "clicks to train with, in the form of Criteo")
	flag.StringVar(&f.criteoTest, "criteo-test", "", "clicks to test with, likewise")
	flag.BoolVar(&f.binned, "binned", false, "the numbers of -criteo are binned: they are categories, too")
	flag.StringVar(&f.adult, "adult", "", "the table adult.data, with its header")
	flag.StringVar(&f.tables, "tables", local, "who has the tables of categories: local, distributed or growing")
	os.Exit(page.Main(func(out string) error { return write(out, f, vocabulary) }))
}

// write fills out with programs and data, and prints what to do with them.
func write(out string, f files, vocabulary int64) error {
	from, err := f.source(vocabulary)
	if err != nil {
		return err
	}
	if err := page.Save(out, "program.pb", from.shape.train); err != nil {
		return err
	}
	if err := page.Save(out, "test.pb", from.shape.test); err != nil {
		return err
	}
	if err := from.write(out); err != nil {
		return err
	}
	page.Commands(out, "--passes 3 --fetch auc")
	page.Evaluation(out, "auc")
	return nil
}
