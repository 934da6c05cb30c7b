// Sentiment tells whether a review is good or bad, by three LSTMs over its words, of which the second reads from the end, by convolutions over three and four
// words (-net conv), or by one LSTM that is written step by step (-net dynamic_rnn).
//
//	go run ./examples/sentiment -text reviews.tsv -out /tmp/sentiment
//
// Each line of reviews.tsv is a label, 0 or 1, a tab, and words. Without -text it makes up reviews, whose words mean something else behind "not". The words and
// their numbers go to words.txt.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Sizes of the network.
const (
	width  = 32 // numbers in the vector of a word
	hidden = 32 // units of each LSTM, and filters of each convolution
	stack  = 3  // LSTMs
)

// A network finds numbers about each review, from the vectors of its words. It learns what is made up in so many passes.
type network struct {
	build  func(m *layers.Model, words layers.Variable) layers.Variable
	passes int
}

var networks = map[string]network{"stacked": {stacked, 3}, "conv": {convolutions, 12}, "dynamic_rnn": {stepByStep, 6}}

// train is a network for a number of words. Sentences differ in length, and nothing is padded.
func train(vocabulary int64, net string) (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	reviews := layers.OpenDataset(m, "train", layers.Field("words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)),
		layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(reviews, 5000, 1), 32)))
	words, label := batch[0], batch[1]

	guess := layers.Softmax(layers.FC(networks[net].build(m, layers.Embedding(words, vocabulary, width)), 2), layers.Name("guess"))
	loss := layers.Mean(layers.CrossEntropy(guess, label), layers.Name("loss"))
	layers.Accuracy(guess, label, layers.Name("accuracy"))
	optimizer.Adam(0.002).Minimize(loss)
	return m.Program()
}

// stacked is what three LSTMs find in each review.
func stacked(_ *layers.Model, words layers.Variable) layers.Variable {
	gates := layers.FC(words, 4*hidden)
	below, _ := layers.DynamicLSTM(gates, 4*hidden)
	for i := 1; i < stack; i++ {
		gates = layers.FC(layers.Concat([]layers.Variable{gates, below}, 1), 4*hidden)
		var options []layers.Option
		if i%2 == 1 {
			options = append(options, layers.Reverse())
		}
		below, _ = layers.DynamicLSTM(gates, 4*hidden, options...)
	}
	return layers.Concat([]layers.Variable{layers.SequencePool(gates, "max"), layers.SequencePool(below, "max")}, 1)
}

// convolutions is what filters over three words, and over four, find in each review.
func convolutions(_ *layers.Model, words layers.Variable) layers.Variable {
	var found []layers.Variable
	for _, size := range []int{3, 4} {
		found = append(found, layers.SequenceConvPool(words, hidden, size, "sqrt", layers.Act("tanh")))
	}
	return layers.Concat(found, 1)
}

// stepByStep is what one LSTM has found after the last word of each review. Its step is written out.
func stepByStep(m *layers.Model, words layers.Variable) layers.Variable {
	rnn := layers.NewDynamicRNN(m)
	rnn.Block(func() {
		word, before, cell := rnn.StepInput(words), rnn.Memory([]int64{hidden}, 0), rnn.Memory([]int64{hidden}, 0)
		gate := func(act string) layers.Variable {
			return layers.FCs([]layers.Variable{word, before}, hidden, layers.Act(act))
		}
		next := layers.Add(layers.Mul(gate("sigmoid"), cell), layers.Mul(gate("sigmoid"), gate("tanh"))) // forgets, and learns
		now := layers.Mul(gate("sigmoid"), layers.Tanh(next))
		rnn.UpdateMemory(cell, next)
		rnn.UpdateMemory(before, now)
		rnn.Output(now)
	})
	return layers.SequencePool(rnn.Result(), "last")
}

var (
	text = flag.String("text", "", "file of reviews: a label, a tab and words in each line")
	net  = flag.String("net", "stacked", "network: stacked, conv or dynamic_rnn")
)

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *text, *net) }))
}

func write(out, path, net string) error {
	if networks[net].build == nil {
		return fmt.Errorf("-net: got %q, want stacked, conv or dynamic_rnn", net)
	}
	reviews := madeUp(2000)
	if path != "" {
		var err error
		if reviews, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	ctx := context.Background()
	words, err := convert.CountWords(ctx, bytes.NewReader(reviews), 1, true, 2, 30_000)
	if err != nil {
		return err
	}
	if err := page.Save(out, "program.pb", func() (*program.Program, error) { return train(int64(len(words.Words())), net) }); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "words.txt"), []byte(strings.Join(words.Words(), "\n")+"\n"), 0o666); err != nil {
		return err
	}
	if err := page.Dataset(out, "train", func(w dataset.RecordWriter) error {
		_, err := convert.Text(ctx, bytes.NewReader(reviews), w, convert.TextOptions{Vocabulary: words, Lower: true})
		return err
	}); err != nil {
		return err
	}
	page.Commands(out, fmt.Sprintf("--passes %d --fetch loss,accuracy", networks[net].passes))
	return nil
}

// madeUp makes reviews of 3 to 30 words. Most words say nothing. One says whether the review is good, unless "not" stands two words before it.
func madeUp(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	var b bytes.Buffer
	for range n {
		words := make([]string, 3+random.IntN(28))
		for i := range words {
			words[i] = pick("the", "a", "film", "plot", "actor", "scene", "music", "story", "and", "was", "with", "of", "in", "camera", "ending")
		}
		label, at := random.IntN(2), 2+random.IntN(len(words)-2)
		good := label == 1
		if random.IntN(2) == 0 {
			words[at-2], good = "not", !good
		}
		words[at] = pick("bad", "dull", "awful", "weak")
		if good {
			words[at] = pick("good", "great", "lovely", "strong")
		}
		fmt.Fprintf(&b, "%d\t%s\n", label, strings.Join(words, " "))
	}
	return b.Bytes()
}
