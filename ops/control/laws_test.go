package control_test

import (
	"testing"

	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// through is a model whose loss has what body makes of two parameters, [2, 3] and [3, 3], which are the same on all trainers.
func through(name string, body func(m *layers.Model, x, w layers.Variable) layers.Variable) lawcheck.Program {
	return lawcheck.Program{Name: name, Build: func(m *layers.Model) {
		x := layers.CreateParameter(m, []int64{2, 3}, tensor.Float32, layers.ParamAttr{Name: "x"})
		w := layers.CreateParameter(m, []int64{3, 3}, tensor.Float32, layers.ParamAttr{Name: "w"})
		cost := layers.Mean(layers.SquareErrorCost(layers.FC(layers.Data(m, "in", layers.Dims(3)), 1), layers.Data(m, "y", layers.Dims(1))))
		optimizer.SGD(0.1).Minimize(layers.Sums([]layers.Variable{cost, layers.ReduceSum(body(m, x, w))}))
	}}
}

// times runs body n times.
func times(m *layers.Model, n int64, body func(i layers.Variable)) {
	i, limit := layers.Counter(m, 0), layers.Counter(m, n)
	more := layers.LessThan(i, limit)
	layers.While(more, func() {
		body(i)
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, limit))
	})
}

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "control", nil,
		lawcheck.Program{Name: "sequences step by step", Build: func(m *layers.Model) {
			words := layers.FC(layers.Data(m, "words", layers.Dims(2), layers.LoD(1)), 2)
			rnn, sum := layers.NewDynamicRNN(m), layers.SequencePool(words, "SUM")
			rnn.Block(func() {
				now, before := rnn.StepInput(words), rnn.InitialMemory(sum)
				next := layers.FCs([]layers.Variable{now, before}, 2, layers.Act("tanh"))
				rnn.UpdateMemory(before, next)
				rnn.Output(next)
			})
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.SequencePool(rnn.Result(), "LAST")))
		}},
		lawcheck.Program{Name: "texts sentence by sentence", Build: func(m *layers.Model) {
			words := layers.FC(layers.Data(m, "words", layers.Dims(2), layers.LoD(2)), 2)
			topic := layers.FC(layers.Data(m, "topic", layers.Dims(2)), 2)
			rnn := layers.NewDynamicRNN(m)
			rnn.Block(func() {
				sentence, before, about := rnn.StepSequences(words), rnn.Memory([]int64{2}, 0), rnn.StaticInput(topic)
				next := layers.FCs([]layers.Variable{layers.SequencePool(sentence, "AVERAGE"), before, about}, 2, layers.Act("tanh"))
				rnn.UpdateMemory(before, next)
				rnn.Output(next, layers.Tanh(sentence))
			})
			states := rnn.Results()
			heads, again := layers.SequencePool(states[0], "LAST"), layers.SequencePool(layers.SequencePool(states[1], "SUM"), "SUM")
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.Mul(heads, again)))
		}},
		lawcheck.Program{Name: "steps of one length", Build: func(m *layers.Model) {
			rnn := layers.NewStaticRNN(m)
			rows := layers.Transpose(layers.Reshape(layers.Data(m, "x", layers.Dims(4)), []int64{-1, 2, 2}), []int{1, 0, 2})
			rnn.Block(func() {
				now, before := rnn.StepInput(rows), rnn.Memory([]int64{2}, 0)
				next := layers.FCs([]layers.Variable{now, before}, 2, layers.Act("tanh"))
				rnn.UpdateMemory(before, next)
				rnn.Output(next)
			})
			optimizer.SGD(0.1).Minimize(layers.Mean(rnn.Result()))
		}},
		lawcheck.Program{Name: "rows in two ways", Build: either},
		lawcheck.Program{Name: "rows of a table step by step", Build: looksUpInSteps},
		lawcheck.Program{Name: "rows of a table step by step, as Fluid writes the gradient", Build: looksUpInSteps, Change: func(p *program.Program) {
			changed := 0
			for _, b := range p.Blocks[1:] {
				for _, op := range b.Ops {
					if v, ok := b.Var(op.Out("W@GRAD")); ok {
						op.SetAttr("is_sparse", true)
						v.Kind = program.SelectedRows
						changed++
					}
				}
			}
			data, err := p.Encode()
			if err != nil || changed != 3 {
				t.Fatal(changed, err)
			}
			read, err := program.Decode(data, program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			*p = *read
		}},
		through("a branch", func(m *layers.Model, x, w layers.Variable) layers.Variable {
			less := layers.LessThan(layers.ReduceSum(x), layers.ReduceSum(w))
			y := layers.Cond(less, func() []layers.Variable { return []layers.Variable{layers.MatMul(x, w)} },
				func() []layers.Variable { return []layers.Variable{layers.Tanh(x)} })[0]
			return layers.Sums(layers.SelectOutput(y, layers.Cast(less, tensor.Int32), 2))
		}),
		through("a loop over arrays", func(m *layers.Model, x, w layers.Variable) layers.Variable {
			items := layers.CreateArray(m)
			layers.ArrayWrite(x, layers.Counter(m, 0), items)
			times(m, 3, func(i layers.Variable) {
				item := layers.Tanh(layers.MatMul(layers.ArrayRead(items, i), w))
				layers.ArrayWrite(item, layers.Sums([]layers.Variable{i, layers.Counter(m, 1)}), items)
			})
			joined, _ := layers.TensorArrayToTensor(items, 0, false)
			count := layers.Mul(layers.Cast(layers.ArrayLength(items), tensor.Float32), layers.Cast(layers.IsEmpty(x), tensor.Float32))
			return layers.Add(layers.ReduceSum(joined), layers.Mul(count, layers.ReduceSum(w)))
		}),
	)
}

// looksUpInSteps looks rows of one table up in a loop over sequences, in steps of one length and in a branch, with sparse gradients as far as there are such.
func looksUpInSteps(m *layers.Model) {
	x, words := layers.Data(m, "x", layers.Dims(1)), layers.Data(m, "words", layers.Dims(1), layers.LoD(1), layers.DType(tensor.Int64))
	ids := layers.Data(m, "ids", layers.Dims(4), layers.DType(tensor.Int64))
	row := func(id layers.Variable) layers.Variable {
		return layers.Embedding(id, 9, 3, layers.Sparse(), layers.Param(layers.ParamAttr{Name: "table"}))
	}
	dynamic := layers.NewDynamicRNN(m)
	dynamic.Block(func() {
		now, before := dynamic.StepInput(words), dynamic.Memory([]int64{3}, 0)
		next := layers.FCs([]layers.Variable{row(now), before}, 3, layers.Act("tanh"))
		dynamic.UpdateMemory(before, next)
		dynamic.Output(next)
	})
	static := layers.NewStaticRNN(m)
	steps := layers.Transpose(layers.Unsqueeze(ids, []int{2}), []int{1, 0, 2})
	static.Block(func() {
		now, before := static.StepInput(steps), static.Memory([]int64{3}, 0)
		next := layers.FCs([]layers.Variable{row(now), before}, 3, layers.Act("tanh"))
		static.UpdateMemory(before, next)
		static.Output(next)
	})
	ie := layers.NewIfElse(layers.GreaterThan(x, layers.FillLike(x, 0)))
	ie.True(func() { ie.Output(row(layers.Slice(ie.Input(ids), []int{1}, []int64{0}, []int64{1}))) })
	ie.False(func() { ie.Output(layers.FC(ie.Input(x), 3)) })
	last := layers.SequencePool(dynamic.Result(), "LAST")
	whole := row(layers.Slice(ids, []int{1}, []int64{0}, []int64{1})) // with a sparse gradient beside those of blocks
	optimizer.Adagrad(0.1).Minimize(layers.Sums([]layers.Variable{layers.Mean(last), layers.Mean(static.Result()), layers.Mean(ie.Result()), layers.Mean(whole)}))
}

// either computes with the rows of a batch in two ways.
func either(m *layers.Model) {
	x := layers.Data(m, "x", layers.Dims(2))
	first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
	ie := layers.NewIfElse(layers.GreaterThan(first, layers.FillLike(first, 0)))
	ie.True(func() { ie.Output(layers.FC(ie.Input(x), 2)) })
	ie.False(func() { ie.Output(layers.Scale(layers.FC(ie.Input(x), 2), 2, 0)) })
	optimizer.SGD(0.1).Minimize(layers.Mean(ie.Result()))
}
