// Label_semantic_roles tells who does what to whom: it gives each word of a sentence its role for a verb, by a stack of LSTMs that read from the start and
// from the end in turn, below a conditional random field.
//
//	go run ./examples/label_semantic_roles -words train.words -props train.props -out /tmp/roles
//
// The files are those of the shared task of CoNLL 2005, unpacked. Every tenth sentence is held out. Without them it makes up sentences. A sentence with
// several verbs is a record for each of them. Words, verbs and tags go to text files, in the order of their numbers.
// The sizes are those of Fluid's chapter; -depth 2 -width 64 -rate 0.1 learns what is made up in a few seconds.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// features are the fields of a record, sequences of ids: the words, five words around the verb, the verb, and 1 where those five stand. Each of the others
// has one value for all words of a sentence. The last field is the tags.
var features = []string{"word", "ctx_n2", "ctx_n1", "ctx_0", "ctx_p1", "ctx_p2", "verb", "mark", "target"}

// Widths of the vectors of a word and of a mark.
const (
	wordWidth = 32
	markWidth = 5
)

// A network is the sizes of the model.
type network struct {
	depth, width        int64   // LSTMs, and inputs of each: four times its units
	words, verbs, kinds int64   // ids, and kinds of roles
	rate                float64 // at the first step
}

// tags is the number of tags: the begin and the inside of each kind of role, and the outside of all.
func (n network) tags() int64 { return 2*n.kinds + 1 }

// read opens a dataset and returns the features of a batch. An order above 0 shuffles within as many records.
func read(m *layers.Model, data string, size, order int) []layers.Variable {
	fields := make([]layers.FieldSpec, len(features))
	for i, name := range features {
		fields[i] = layers.Field(name, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	}
	sentences := layers.OpenDataset(m, data, fields...)
	if order > 0 {
		sentences = layers.Shuffle(sentences, order, 1)
	}
	return layers.Read(layers.DoubleBuffer(layers.Batch(sentences, size)))
}

// embed looks up a feature. The words share a table.
func (n network) embed(feature string, ids layers.Variable) layers.Variable {
	switch feature {
	case "verb":
		return layers.Embedding(ids, n.verbs, wordWidth, layers.Sparse(), layers.Param(layers.ParamAttr{Name: "vemb"}))
	case "mark":
		return layers.Embedding(ids, 2, markWidth, layers.Sparse())
	}
	return layers.Embedding(ids, n.words, wordWidth, layers.Sparse(), layers.Param(layers.ParamAttr{Name: "emb"}))
}

// scores says of each word how well each tag fits.
func (n network) scores(batch []layers.Variable) layers.Variable {
	var parts []layers.Variable
	for i, ids := range batch[:len(features)-1] {
		parts = append(parts, layers.FC(n.embed(features[i], ids), n.width))
	}
	gates, acts := layers.Sums(parts), layers.LSTMActs("sigmoid", "sigmoid", "relu")
	below, _ := layers.DynamicLSTM(gates, n.width, acts)
	for i := int64(1); i < n.depth; i++ {
		gates = layers.Sums([]layers.Variable{layers.FC(gates, n.width), layers.FC(below, n.width)})
		options := []layers.Option{acts}
		if i%2 == 1 {
			options = append(options, layers.Reverse())
		}
		below, _ = layers.DynamicLSTM(gates, n.width, options...)
	}
	return layers.Sums([]layers.Variable{layers.FC(gates, n.tags(), layers.Act("tanh")), layers.FC(below, n.tags(), layers.Act("tanh"))})
}

// train has a rate for the field of its own. Fluid's chapter loads the table of words and keeps it; here it is learned.
func (n network) train() (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	batch := read(m, "train", 10, 8192)
	field := layers.Param(layers.ParamAttr{Name: "crfw", LearningRate: 1e-3})
	loss := layers.Mean(layers.LinearChainCRF(n.scores(batch), batch[len(features)-1], field), layers.Name("loss"))
	optimizer.SGD(optimizer.Exponential(n.rate, 100_000, 0.5, true)).Minimize(loss)
	return m.Program()
}

// test finds the best tags by the same network and field, and compares roles as a whole.
func (n network) test() (*program.Program, error) {
	m := layers.NewModel()
	batch := read(m, "test", 100, 0)
	found := layers.CRFDecoding(n.scores(batch), layers.Param(layers.ParamAttr{Name: "crfw"}))
	layers.ChunkEval(found, batch[len(features)-1], "IOB", int(n.kinds), layers.Name("f1"))
	return m.Program()
}

// settings are the flags.
type settings struct {
	words, props string
	depth, width int64
	rate         float64
	made         int // sentences to make up without files
}

func main() {
	s := settings{made: 5000}
	flag.StringVar(&s.words, "words", "", "file of words: one in each line, and a blank line between sentences")
	flag.StringVar(&s.props, "props", "", "file of their roles: the lemma of a verb or -, and a column of roles for each verb of the sentence")
	flag.Int64Var(&s.depth, "depth", 8, "LSTMs")
	flag.Int64Var(&s.width, "width", 512, "inputs of each LSTM, four times its units")
	flag.Float64Var(&s.rate, "rate", 0.01, "learning rate at the start; a small network may take a larger one")
	os.Exit(page.Main(func(out string) error { return write(out, s) }))
}

// write fills out with programs and data, and prints what to do with them.
func write(out string, s settings) error {
	if s.depth < 1 {
		return fmt.Errorf("-depth is %d, want at least 1", s.depth)
	}
	if (s.words == "") != (s.props == "") {
		return fmt.Errorf("-words is %q and -props is %q: want both or none", s.words, s.props)
	}
	sentences := madeUp(s.made)
	if s.words != "" {
		var err error
		if sentences, err = readCoNLL(s.words, s.props); err != nil {
			return err
		}
	}
	c := newCorpus(sentences)
	n := network{s.depth, s.width, int64(len(c.words.texts)), int64(len(c.verbs.texts)), int64(len(c.tags.texts) / 2), s.rate}
	if err := page.Save(out, "program.pb", n.train); err != nil {
		return err
	}
	if err := page.Save(out, "test.pb", n.test); err != nil {
		return err
	}
	if err := c.write(out); err != nil {
		return err
	}
	page.Commands(out, "--passes 5 --fetch loss")
	page.Evaluation(out, "f1")
	return nil
}
