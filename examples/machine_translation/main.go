// Machine_translation translates sentences: an LSTM reads a sentence, and a recurrent network writes it in another language, word by word. Training shows the
// network the right words. Translation searches for the best ones with a beam.
//
//	go run ./examples/machine_translation -out /tmp/translation
//	edl run /tmp/translation/program.pb ...                             # as the example prints
//	go run ./examples/machine_translation -model /tmp/translation/model -say "the red fox sees a dog"
//
// It makes up two languages. The second has other words, puts nouns before what describes them, and verbs last.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Sizes of the network and of the search.
const (
	width   = 32 // numbers in the vector of a word
	hidden  = 64 // numbers in the state of both networks
	beam    = 3  // translations that the search keeps
	longest = 12 // words that it writes at most
)

// Words of both languages by number. The first two of the second language begin and end a sentence.
var (
	source = strings.Fields("a the fox dog cat bird red big old quick sees likes hears")
	target = strings.Fields("<s> <e> un lo volp kan gat fugl rosa grum vek snel vid ama oye")
)

const begin, end = 0, 1

// A network has the layers that training and translation share. Layers that name the same parameter share it.
type network struct{ *layers.Model }

func named(name string) layers.Option { return layers.Param(layers.ParamAttr{Name: name}) }

func dense(x layers.Variable, size int64, name string) layers.Variable {
	return layers.FC(x, size, named(name+".w"), layers.Bias(layers.ParamAttr{Name: name + ".b"}))
}

// read is what the network knows of each sentence: the last state of an LSTM.
func (n network) read(words layers.Variable) layers.Variable {
	vectors := layers.Embedding(words, int64(len(source)), width, named("source.vectors"))
	states, _ := layers.DynamicLSTM(layers.Tanh(dense(vectors, 4*hidden, "gates")), 4*hidden, named("lstm.w"), layers.Bias(layers.ParamAttr{Name: "lstm.b"}))
	return layers.SequenceLastStep(states)
}

// next is the state after a word, and the probabilities of the word that follows.
func (n network) next(word, before layers.Variable) (state, words layers.Variable) {
	state = layers.Tanh(layers.Add(dense(word, hidden, "word"), dense(before, hidden, "state")))
	return state, layers.Softmax(dense(state, int64(len(target)), "words"))
}

func (n network) vector(word layers.Variable) layers.Variable {
	return layers.Embedding(word, int64(len(target)), width, named("target.vectors"))
}

// train is the program that learns. A record has a sentence, its translation behind the word that begins it, and the translation up to the word that ends it.
func train() (*program.Program, error) {
	n := network{layers.NewModel().Seed(1)}
	words := func(name string) layers.FieldSpec {
		return layers.Field(name, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	}
	pairs := layers.OpenDataset(n.Model, "train", words("source"), words("target"), words("next"))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(pairs, 5000, 1), 16)))

	context := n.read(batch[0])
	vectors := n.vector(batch[1])
	writer := layers.NewDynamicRNN(n.Model)
	writer.Block(func() {
		word := writer.StepInput(vectors)
		before := writer.InitialMemory(context)
		state, guess := n.next(word, before)
		writer.UpdateMemory(before, state)
		writer.Output(guess)
	})
	loss := layers.Mean(layers.CrossEntropy(writer.Result(), batch[2]), layers.Name("loss"))
	optimizer.Adam(0.005).Minimize(loss)
	return n.Program()
}

// translate is the program that translates sentences: a loop writes a word in each run, to the best prefixes of each sentence. It is fed the sentences, and for
// each the word that begins a translation, with a score of 0.
func translate() (p *program.Program, translations layers.Variable, err error) {
	n := network{layers.NewModel()}
	context := n.read(layers.Data(n.Model, "source", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)))
	step, most := layers.Counter(n.Model, 0), layers.Counter(n.Model, longest)
	words := layers.ArrayWrite(layers.Data(n.Model, "first", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(2)), step,
		layers.CreateArray(n.Model, layers.DType(tensor.Int64)))
	scores := layers.ArrayWrite(layers.Data(n.Model, "score", layers.Dims(1), layers.LoD(2)), step, layers.CreateArray(n.Model))
	states := layers.ArrayWrite(context, step, layers.CreateArray(n.Model))
	more := layers.LessThan(step, most)
	layers.While(more, func() {
		word, score := layers.ArrayRead(words, step), layers.ArrayRead(scores, step)
		before := layers.SequenceExpand(layers.ArrayRead(states, step), score) // a row for each word that goes on from it
		state, guess := n.next(n.vector(word), before)
		likely, candidates := layers.TopK(guess, beam+1)
		sums := layers.Add(layers.Log(likely), layers.Reshape(score, []int64{-1}), layers.Axis(0))
		chosen, chosenScores, _ := layers.BeamSearch(word, score, candidates, layers.LoDReset(sums, score), beam, end)
		layers.Increment(step, 1)
		layers.ArrayWrite(state, step, states)
		layers.ArrayWrite(chosen, step, words)
		layers.ArrayWrite(chosenScores, step, scores)
		layers.AssignTo(more, layers.LogicalAnd(layers.LessThan(step, most), layers.LogicalNot(layers.IsEmpty(chosen))))
	})
	translations, _ = layers.BeamSearchDecode(words, scores, beam, end, layers.Name("translations"))
	p, err = n.Program()
	return p, translations, err
}

// A translator translates with the parameters of a trained model.
type translator struct {
	exe          *executor.Local
	program      *program.Program
	translations string
}

func newTranslator(ctx context.Context, model string) (*translator, error) {
	p, translations, err := translate()
	if err != nil {
		return nil, err
	}
	t := &translator{executor.New(), p, translations.Name()}
	if _, err := t.exe.Load(ctx, model, p, executor.LoadOptions{}); err != nil {
		return nil, errors.Join(err, t.exe.Close())
	}
	return t, nil
}

// best returns the best translation of each sentence.
func (t *translator) best(ctx context.Context, sentences [][]int64) ([][]int64, error) {
	var words, firsts []int64
	offsets, ones := []int64{0}, []int64{0}
	for i, s := range sentences {
		words, firsts = append(words, s...), append(firsts, begin)
		offsets, ones = append(offsets, int64(len(words))), append(ones, int64(i)+1)
	}
	in, err := column(words, [][]int64{offsets})
	if err != nil {
		return nil, err
	}
	first, err := column(firsts, [][]int64{ones, ones})
	if err != nil {
		return nil, err
	}
	score, err := column(make([]float32, len(firsts)), [][]int64{ones, ones})
	if err != nil {
		return nil, err
	}
	got, err := t.exe.Run(ctx, t.program, executor.Feed{"source": in, "first": first, "score": score}, t.translations)
	if err != nil {
		return nil, err
	}
	lod, all := got[0].LoD(), got[0].Int64s()
	best := make([][]int64, len(sentences))
	for i := range best {
		if k := lod[0][i]; k < lod[0][i+1] {
			best[i] = slices.DeleteFunc(slices.Clone(all[lod[1][k]:lod[1][k+1]]), func(word int64) bool { return word == begin || word == end })
		}
	}
	return best, nil
}

func column[T tensor.Element](values []T, lod [][]int64) (*tensor.Tensor, error) {
	t, err := tensor.FromSlice(values, int64(len(values)), 1)
	if err == nil {
		t.SetLoD(lod)
	}
	return t, err
}

// numbers looks words up.
func numbers(words, in []string) ([]int64, error) {
	ids := make([]int64, len(words))
	for i, w := range words {
		at := slices.Index(in, w)
		if at < 0 {
			return nil, fmt.Errorf("the word %q, want one of %s", w, strings.Join(in, ", "))
		}
		ids[i] = int64(at)
	}
	return ids, nil
}

// A pair is a sentence with its translation.
type pair struct{ source, target []int64 }

// madeUp makes sentences of a subject, a verb and an object, of 5 to 7 words.
func madeUp(n int, seed uint64) []pair {
	random := rand.New(rand.NewPCG(seed, 2))
	phrase := func() (source, target []int64) {
		article, noun := random.Int64N(2), 2+random.Int64N(4)
		described := random.Perm(4)[:random.IntN(2)]
		source, target = []int64{article}, []int64{article + 2, noun + 2}
		for _, adjective := range described {
			source, target = append(source, int64(adjective)+6), append(target, int64(adjective)+8)
		}
		return append(source, noun), target
	}
	pairs := make([]pair, n)
	for i := range pairs {
		verb := 10 + random.Int64N(3)
		subject, subjectThere := phrase()
		object, objectThere := phrase()
		pairs[i] = pair{slices.Concat(subject, []int64{verb}, object), slices.Concat(subjectThere, objectThere, []int64{verb + 2})}
	}
	return pairs
}

func write(out string, n int) error {
	if err := page.Save(out, "program.pb", train); err != nil {
		return err
	}
	if err := page.Dataset(out, "train", func(w dataset.RecordWriter) error {
		for _, p := range madeUp(n, 1) {
			var fields []*tensor.Tensor
			for _, words := range [][]int64{p.source, slices.Concat([]int64{begin}, p.target), slices.Concat(p.target, []int64{end})} {
				field, err := tensor.FromSlice(words, int64(len(words)), 1)
				if err != nil {
					return err
				}
				fields = append(fields, field)
			}
			if err := w.Write(dataset.AppendRecord(nil, fields...)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	page.Commands(out, "--passes 20 --fetch loss")
	fmt.Printf("translate with what it learned:\n  go run ./examples/machine_translation -model %s/model -say \"the red fox sees a dog\"\n", out)
	return nil
}

// speak prints the translation of a sentence.
func speak(ctx context.Context, model, sentence string) error {
	words, err := numbers(strings.Fields(sentence), source)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return errors.New("no words, want a sentence in -say")
	}
	t, err := newTranslator(ctx, model)
	if err != nil {
		return err
	}
	defer t.exe.Close()
	best, err := t.best(ctx, [][]int64{words})
	if err != nil {
		return err
	}
	for _, word := range best[0] {
		fmt.Print(target[word], " ")
	}
	fmt.Println()
	return nil
}

var (
	model = flag.String("model", "", "directory of a trained model, to translate with it")
	say   = flag.String("say", "", "sentence to translate")
)

func main() {
	os.Exit(page.Main(func(out string) error {
		if *model != "" {
			return speak(context.Background(), *model, *say)
		}
		return write(out, 3000)
	}))
}
