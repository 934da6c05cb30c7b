// Word2vec learns a vector for every word of a text by guessing each word from the four before it (Bengio et al. 2003).
//
//	go run ./examples/word2vec -text book.txt -out /tmp/words
//
// Without -text it reads a short text of its own. The words and their numbers go to words.txt.
package main

import (
	"cmp"
	_ "embed"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Sizes of the network.
const (
	context = 4   // words that a guess is made from
	width   = 32  // numbers in the vector of a word
	hidden  = 128 // units between the vectors and the guess
)

// train is a network for a number of words. All places of the context share one table of vectors, the parameter "words".
func train(vocabulary int64) (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	fields := make([]layers.FieldSpec, context+1)
	for i, name := range []string{"first", "second", "third", "fourth", "next"} {
		fields[i] = layers.Field(name, layers.Dims(1), layers.DType(tensor.Int64))
	}
	grams := layers.OpenDataset(m, "train", fields...)
	words := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(grams, 5000, 1), 32)))

	table := layers.Param(layers.ParamAttr{Name: "words"})
	vectors := make([]layers.Variable, context)
	for i, word := range words[:context] {
		vectors[i] = layers.Embedding(word, vocabulary, width, table)
	}
	h := layers.FC(layers.Concat(vectors, 1), hidden, layers.Act("sigmoid"))
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(h, vocabulary), words[context])
	loss := layers.Mean(cost, layers.Name("loss"))
	optimizer.Adam(0.005).Minimize(loss)
	return m.Program()
}

//go:embed text.txt
var ownText string

var text = flag.String("text", "", "file to read words from")

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *text) }))
}

func write(out, path string) error {
	if path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ownText = string(b)
	}
	numbers, words := count(ownText)
	if err := page.Save(out, "program.pb", func() (*program.Program, error) { return train(int64(len(words))) }); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "words.txt"), []byte(strings.Join(words, "\n")+"\n"), 0o666); err != nil {
		return err
	}
	if err := page.Dataset(out, "train", func(w dataset.RecordWriter) error { return writeGrams(w, numbers) }); err != nil {
		return err
	}
	page.Commands(out, "--passes 5")
	return nil
}

// count returns the text as numbers of words, and the words by their numbers, the most frequent first.
func count(text string) (numbers []int64, words []string) {
	running := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
	frequency := map[string]int{}
	for _, w := range running {
		frequency[w]++
	}
	words = slices.SortedFunc(maps.Keys(frequency), func(a, b string) int {
		return cmp.Or(cmp.Compare(frequency[b], frequency[a]), strings.Compare(a, b))
	})
	number := map[string]int64{}
	for i, w := range words {
		number[w] = int64(i)
	}
	for _, w := range running {
		numbers = append(numbers, number[w])
	}
	return numbers, words
}

// writeGrams writes one record for each word that has a whole context before it: the words of the context and the word itself.
func writeGrams(w dataset.RecordWriter, numbers []int64) error {
	gram := make([]*tensor.Tensor, context+1)
	var record []byte
	for i := range max(0, len(numbers)-context) {
		for j := range gram {
			t, err := tensor.FromSlice(numbers[i+j : i+j+1])
			if err != nil {
				return err
			}
			gram[j] = t
		}
		record = dataset.AppendRecord(record[:0], gram...)
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return nil
}
