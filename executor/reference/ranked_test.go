package reference_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// oneAndMany returns what runs a program on one machine and by the rules of a job with so many trainers, step by step.
func oneAndMany(t *testing.T, p *program.Program, trainers int) func(feed executor.Feed, fetch ...string) (want, got []*tensor.Tensor) {
	t.Helper()
	one := executor.New()
	t.Cleanup(func() { one.Close() })
	many, err := reference.New(p, trainers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { many.Close() })
	return func(feed executor.Feed, fetch ...string) (want, got []*tensor.Tensor) {
		t.Helper()
		want, err := one.Run(t.Context(), p, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err = many.Run(t.Context(), p, feed, fetch...); err != nil {
			t.Fatal(err)
		}
		return want, got
	}
}

// What is drawn in the steps of a network over sequences follows from the record and the step. So trainers, which rank the sequences of their own records, draw what one machine draws for
// all of them: rows of steps, sentences that are steps of texts, and words that are steps of such sentences.
func TestTrainersDrawInStepsWhatOneMachineDraws(t *testing.T) {
	m := layers.NewModel().Seed(5)
	texts := layers.Data(m, "texts", layers.Dims(3), layers.LoD(2))
	ones := layers.FillLike(texts, 1)
	text, inner := layers.NewDynamicRNN(m), layers.Variable{}
	text.Block(func() {
		sentence := text.StepSequences(ones)
		first, word := layers.Dropout(layers.SequencePool(sentence, "first"), 0.5), layers.NewDynamicRNN(m)
		word.Block(func() {
			now := word.StepInput(sentence)
			drawn := layers.Dropout(layers.Add(now, word.StaticInput(first)), 0.5)
			word.Output(layers.Add(drawn, layers.UniformRandomBatchSizeLike(drawn, []int64{-1, 3}, 0, 1)))
		})
		inner = word.Result()
		text.Output(layers.Dropout(sentence, 0.5), inner)
	})
	heads, sentences := layers.SequencePool(ones, "first"), layers.NewDynamicRNN(m)
	sentences.Block(func() {
		sentences.Output(layers.Dropout(sentences.StepInput(heads), 0.5))
	})
	words := layers.NewDynamicRNN(m) // the sentences of all texts are the sequences of its table
	words.Block(func() { words.Output(layers.Dropout(words.StepInput(ones), 0.5)) })
	drawn := append(text.Results(), sentences.Result(), words.Result())
	loss := layers.Mean(layers.FC(layers.SequencePool(layers.SequencePool(texts, "sum"), "sum"), 1), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	built := testkit.Built(t, m, loss)
	run := oneAndMany(t, built.Program, 3)
	offsets := [][]int64{{0, 1, 4, 6, 6, 9}, {0, 2, 3, 7, 12, 13, 17, 19, 20, 26}}
	batch := testkit.Random(t, tensor.Float32, 1, 26, 3)
	batch.SetLoD(offsets)
	names := layers.Names(drawn...)
	for step := range 2 {
		want, got := run(executor.Feed{"texts": batch}, names...)
		for i, name := range names {
			kept, zeros := want[i].Float32s(), 0
			for at, x := range got[i].Float32s() {
				if x != kept[at] {
					t.Fatalf("step %d: element %d of %s is %v with trainers, and %v on one machine", step, at, name, x, kept[at])
				}
				if x < 1 {
					zeros++
				}
			}
			if zeros == 0 || zeros == len(kept) {
				t.Errorf("step %d: %d of %d elements of %s are dropped", step, zeros, len(kept), name)
			}
		}
	}
}

// A network of rows behind one of sequences draws by rows again, though weights of both are updated from gradients of ranked steps.
func TestTrainersDrawBehindASequenceWhatOneMachineDraws(t *testing.T) {
	m := layers.NewModel().Seed(5)
	words, steps := layers.NewDynamicRNN(m), layers.NewStaticRNN(m)
	each := layers.FC(layers.Data(m, "text", layers.Dims(3), layers.LoD(1)), 4)
	words.Block(func() {
		word := words.StepInput(each)
		before := words.Memory([]int64{4}, 0)
		now := layers.FCs([]layers.Variable{word, before}, 4, layers.Act("tanh"))
		words.UpdateMemory(before, now)
		words.Output(now)
	})
	text := layers.SequencePool(words.Result(), "sum")
	first := layers.FC(text, 2)
	turned := layers.Transpose(layers.Reshape(text, []int64{-1, 2, 2}), []int{1, 0, 2})
	steps.Block(func() {
		step := steps.StepInput(turned)
		before := steps.InitialMemory(first)
		now := layers.Dropout(layers.FCs([]layers.Variable{step, before}, 2, layers.Act("tanh")), 0.5)
		steps.UpdateMemory(before, now)
		steps.Output(now)
	})
	drawn := layers.Reshape(layers.Transpose(steps.Result(), []int{1, 0, 2}), []int64{-1, 4})
	loss := layers.Mean(layers.Square(drawn), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	built := testkit.Built(t, m, loss)
	for _, b := range built.Program.Blocks[1:] {
		for name := range ops.Ranked(b) {
			if v, ok := b.Find(name); ok && v.Persistable {
				t.Errorf("block %d: parameter %s has the order of ranks", b.Index, name)
			}
		}
	}
	run := oneAndMany(t, built.Program, 3)
	batch := testkit.Random(t, tensor.Float32, 1, 12, 3)
	batch.SetLoD([][]int64{{0, 2, 3, 7, 8, 12}})
	want, got := run(executor.Feed{"text": batch}, drawn.Name(), loss.Name())
	if !slices.Equal(got[0].Float32s(), want[0].Float32s()) {
		t.Errorf("%v with trainers, and %v on one machine", got[0].Float32s(), want[0].Float32s())
	}
}

// A fetched variable whose records lie along another axis, and its gradient, have the records of all trainers, in their order.
func TestTrainersFetchRecordsAlongAnotherAxis(t *testing.T) {
	m := layers.NewModel().Seed(5)
	steps := layers.Transpose(layers.FC(layers.Reshape(layers.Data(m, "x", layers.Dims(6)), []int64{-1, 3, 2}), 2, layers.NumFlattenDims(2)), []int{1, 0, 2})
	loss := layers.Mean(layers.Square(steps), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	built := testkit.Built(t, m, loss)
	run := oneAndMany(t, built.Program, 2)
	names := []string{steps.Name(), steps.Name() + "@GRAD"}
	for _, rows := range []int64{4, 5, 1} { // of equal parts, of other ones, and of one trainer alone
		feed := executor.Feed{"x": testkit.Random(t, tensor.Float32, uint64(rows), rows, 6)}
		want, got := run(feed, names...)
		for i, name := range names {
			if !slices.Equal(got[i].Dims(), want[i].Dims()) || got[i].Dims()[1] != rows {
				t.Fatalf("%d rows: %s is %v with trainers, and %v on one machine", rows, name, got[i], want[i])
			}
			for at, x := range got[i].Float32s() {
				if y := want[i].Float32s()[at]; x-y > 1e-5 || y-x > 1e-5 {
					t.Fatalf("%d rows: element %d of %s is %v with trainers, and %v on one machine", rows, at, name, x, y)
				}
			}
		}
	}
}
