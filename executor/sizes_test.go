package executor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A sized is a model with batches of any size.
type sized struct {
	steps int // of other sizes, so many that plans get the dims of other batches
	build func(t *testing.T) *program.Program
	feed  func(i int) executor.Feed
}

// TestBatchesOfAnySizeTrainAlike trains on batches of ever other sizes. An executor that gives the plans that it has other dims takes the steps, bit for bit, of one that
// compiles a plan for each batch.
func TestBatchesOfAnySizeTrainAlike(t *testing.T) {
	for name, c := range map[string]sized{
		"rows": {14, func(t *testing.T) *program.Program {
			return fixture.ConvNet(t, 8, 3, true, 0.3, optimizer.Adam(0.01)).Program
		}, func(i int) executor.Feed { return pictures(int64(2+i*5%11), 8) }},
		"a table": {14, func(t *testing.T) *program.Program { return clicks(t, optimizer.Adam(0.01), layers.Sparse()) }, func(i int) executor.Feed {
			feed := executor.Feed{}
			for name, all := range click(int64(i)) {
				feed[name], _ = all.Rows(0, int64(2+i*3%7))
			}
			return feed
		}},
		"words": {14, func(t *testing.T) *program.Program { p, _, _ := sentiment(t, 0.02); return p }, phrases},
		"the same tensors": {14, func(t *testing.T) *program.Program {
			return fixture.ConvNet(t, 8, 3, true, 0.3, optimizer.Adam(0.01)).Program
		}, refilled(func(i int) executor.Feed { return pictures(int64(2+i*5%11), 8) })},
		"the same sequences": {14, func(t *testing.T) *program.Program { p, _, _ := sentiment(t, 0.02); return p }, refilled(phrases)},
		"lengths make rows":  {14, expanded, phrases},
		"steps of sequences": {14, stepped, phrases},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.build(t)
			var fetch []string
			for _, v := range p.Global().Vars() {
				if grad, ok := p.Global().Var(program.GradName(v.Name)); v.IsParameter && ok && grad.Kind == program.LoDTensor {
					fetch = append(fetch, grad.Name)
				}
			}
			kept, fresh := executor.New(), executor.New()
			defer kept.Close()
			defer fresh.Close()
			for i := range c.steps {
				feed := c.feed(i)
				got, err := kept.Run(t.Context(), p, feed, fetch...)
				if err != nil {
					t.Fatal(err)
				}
				prepared, err := fresh.Prepare(t.Context(), p, feed, fetch...)
				if err != nil {
					t.Fatal(err)
				}
				want, err := prepared.Run(t.Context(), feed)
				if err != nil {
					t.Fatal(err)
				}
				for k, name := range fetch {
					if !slices.Equal(got[k].Float32s(), want[k].Float32s()) {
						t.Fatalf("step %d: %s is %v, want %v", i, name, got[k], want[k])
					}
				}
			}
			for _, v := range p.Global().Vars() {
				a, has := kept.Scope().Find(v.Name)
				if b, ok := fresh.Scope().Find(v.Name); has && ok && fmt.Sprintf("%v", a.Float32s()) != fmt.Sprintf("%v", b.Float32s()) {
					t.Errorf("%s is %v, want %v", v.Name, a, b)
				}
			}
		})
	}
}

// refilled gives feeds in the same tensors, one after the other, as a caller does that keeps their memory.
func refilled(feed func(i int) executor.Feed) func(i int) executor.Feed {
	all := executor.Feed{}
	return func(i int) executor.Feed {
		for name, t := range feed(i) {
			if all[name] == nil {
				all[name] = t.Clone()
			}
			if err := tensor.Assign(all[name], t); err != nil {
				panic(err)
			}
		}
		return all
	}
}

// phrases are up to four sequences of words, whose lengths and number depend on i.
func phrases(i int) executor.Feed {
	offsets, labels := []int64{0}, []int64{}
	for k := range 2 + i%3 {
		offsets = append(offsets, offsets[k]+int64(1+(i*7+k*5)%13))
		labels = append(labels, int64((i+k)%2))
	}
	words := make([]int64, offsets[len(offsets)-1])
	for k := range words {
		words[k] = int64(i+k*k) % vocabulary
	}
	w, _ := tensor.FromSlice(words, int64(len(words)), 1)
	w.SetLoD([][]int64{offsets})
	l, _ := tensor.FromSlice(labels, int64(len(labels)), 1)
	return executor.Feed{"words": w, "label": l}
}

func told(t *testing.T, find func(m *layers.Model, words layers.Variable) layers.Variable) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(3)
	words := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(find(m, layers.Embedding(words, vocabulary, 4)), 2), label)
	optimizer.Adam(0.01).Minimize(layers.Mean(cost))
	return finished(t, m)
}

// expanded reads what was found of each sequence again beside each of its words.
func expanded(t *testing.T) *program.Program {
	return told(t, func(_ *layers.Model, words layers.Variable) layers.Variable {
		again := layers.SequenceExpand(layers.SequencePool(words, "average"), words)
		both := layers.SequenceConcat([]layers.Variable{words, again})
		return layers.SequencePool(layers.SequenceConv(both, 4, 3), "max")
	})
}

// stepped is a recurrent network whose step is written out, after layers of known dims and before others.
func stepped(t *testing.T) *program.Program {
	return told(t, func(m *layers.Model, words layers.Variable) layers.Variable {
		rnn, wide := layers.NewDynamicRNN(m), layers.FC(words, 4)
		rnn.Block(func() {
			word, before := rnn.StepInput(wide), rnn.Memory([]int64{4}, 0)
			now := layers.FCs([]layers.Variable{word, before}, 4, layers.Act("tanh"))
			rnn.UpdateMemory(before, now)
			rnn.Output(now)
		})
		return layers.SequencePool(layers.FC(rnn.Result(), 4, layers.Act("relu")), "last")
	})
}

// TestManyNumbersOfRowsInALoop runs a loop whose steps have one row less each, and more numbers of rows than a part of a block keeps plans for. What becomes of
// a sequence is what becomes of it among fewer others.
func TestManyNumbersOfRowsInALoop(t *testing.T) {
	const most = 80
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(3), layers.LoD(1))
	rnn := layers.NewDynamicRNN(m)
	rnn.Block(func() {
		now, before := rnn.StepInput(x), rnn.Memory([]int64{3}, 0)
		next := layers.FCs([]layers.Variable{now, before}, 3, layers.Act("tanh"))
		rnn.UpdateMemory(before, next)
		rnn.Output(next)
	})
	result := rnn.Result()
	pairs := optimizer.AppendBackward(layers.ReduceSum(result), x)
	p, exe := finished(t, m), executor.New()
	defer exe.Close()
	run := func(from, to int64) (rows []float32) {
		t.Helper()
		offsets := []int64{0}
		for n := from; n <= to; n++ {
			offsets = append(offsets, offsets[n-from]+n)
		}
		first := from * (from - 1) / 2 // of the rows of all sequences
		batch, err := fixture.Numbers(1, most*(most+1)/2, 3).Rows(first, first+offsets[len(offsets)-1])
		if err != nil {
			t.Fatal(err)
		}
		batch.SetLoD([][]int64{offsets})
		out, err := exe.Run(t.Context(), p, executor.Feed{"x": batch}, result.Name(), pairs[0].Grad.Name())
		if err != nil {
			t.Fatal(err)
		}
		if from == 1 && to == most {
			half := most * (most + 2) / 8 * 3 // elements of the first sequences
			return slices.Concat(out[0].Float32s()[:half], out[1].Float32s()[:half], out[0].Float32s()[half:], out[1].Float32s()[half:])
		}
		return slices.Concat(out[0].Float32s(), out[1].Float32s())
	}
	want := slices.Concat(run(1, most/2), run(most/2+1, most))
	for range 2 {
		if got := run(1, most); !slices.Equal(got, want) {
			t.Error("the bits are others")
		}
	}
}
