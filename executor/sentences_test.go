package executor_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// sentiment is the model that tells whether a sentence is good or bad: an LSTM over its words, and the largest of each of its outputs.
func sentiment(t *testing.T, rate float64) (p *program.Program, loss string, hidden string) {
	t.Helper()
	m := layers.NewModel().Seed(3)
	words := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	h, _ := layers.DynamicLSTM(layers.FC(layers.Embedding(words, vocabulary, 8), 32), 32, layers.Name("hidden"))
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.SequencePool(h, "max"), 2), label)
	mean := layers.Mean(cost, layers.Name("loss"))
	optimizer.Adam(rate).Minimize(mean)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p, mean.Name(), h.Name()
}

const vocabulary = 20

// sentences makes sentences of these lengths. The label of one says whether word 1 comes before word 2 in it; the other words mean nothing.
func sentences(random *rand.Rand, lengths ...int64) executor.Feed {
	offsets, words, labels := []int64{0}, []int64{}, []int64{}
	for _, n := range lengths {
		sentence := make([]int64, n)
		for i := range sentence {
			sentence[i] = 3 + random.Int64N(vocabulary-3)
		}
		label := random.Int64N(2)
		if n >= 2 {
			at := random.Perm(int(n))[:2]
			slices.Sort(at)
			sentence[at[0]], sentence[at[1]] = 2-label, 1+label
		} else {
			label = 0
		}
		words, labels, offsets = append(words, sentence...), append(labels, label), append(offsets, offsets[len(offsets)-1]+n)
	}
	w, _ := tensor.FromSlice(words, int64(len(words)), 1)
	w.SetLoD([][]int64{offsets})
	l, _ := tensor.FromSlice(labels, int64(len(labels)), 1)
	return executor.Feed{"words": w, "label": l}
}

// part returns sentences [from, to) of a batch.
func part(t *testing.T, feed executor.Feed, from, to int) executor.Feed {
	t.Helper()
	offsets := feed["words"].LoD()[0]
	words, err := feed["words"].Rows(offsets[from], offsets[to])
	if err != nil {
		t.Fatal(err)
	}
	labels, err := feed["label"].Rows(int64(from), int64(to))
	if err != nil {
		t.Fatal(err)
	}
	moved := make([]int64, to-from+1)
	for i := range moved {
		moved[i] = offsets[from+i] - offsets[from]
	}
	words.SetLoD([][]int64{moved})
	return executor.Feed{"words": words, "label": labels}
}
