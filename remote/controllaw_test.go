package remote_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// controlModels make the rows of a model from records of 12 numbers. Each has the ops of control flow that its name lists.
var controlModels = map[string]func(m *layers.Model, x layers.Variable) layers.Variable{
	"recurrent": func(m *layers.Model, x layers.Variable) layers.Variable {
		steps := layers.Tanh(layers.Transpose(layers.Reshape(x, []int64{-1, 4, 3}), []int{1, 0, 2}))
		first := layers.FC(x, 5, layers.Act("tanh"))
		var all []layers.Variable
		for _, opts := range [][]layers.Option{nil, {layers.Reverse()}} {
			rnn := layers.NewStaticRNN(m, opts...)
			rnn.Block(func() {
				word := rnn.StepInput(steps)
				before, sum := rnn.InitialMemory(first), rnn.Memory([]int64{5}, 0)
				now := layers.Dropout(layers.FCs([]layers.Variable{word, before}, 5, layers.Act("tanh")), 0.3)
				rnn.UpdateMemory(before, now)
				rnn.UpdateMemory(sum, layers.Add(sum, now))
				rnn.Output(layers.Mul(now, sum))
			})
			all = append(all, layers.Reshape(layers.Transpose(rnn.Result(), []int{1, 0, 2}), []int64{-1, 20}))
		}
		return layers.Concat(all, 1)
	},
	"split_lod_tensor merge_lod_tensor": func(_ *layers.Model, x layers.Variable) layers.Variable {
		first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
		ie := layers.NewIfElse(layers.GreaterThan(first, layers.FillLike(first, 0.2)))
		ie.True(func() { ie.Output(layers.Dropout(layers.FC(ie.Input(x), 6, layers.Act("tanh")), 0.3)) })
		ie.False(func() { ie.Output(layers.FC(layers.FC(ie.Input(x), 3, layers.Act("sigmoid")), 6)) })
		return ie.Result()
	},
	"select_input select_output": func(m *layers.Model, x layers.Variable) layers.Variable {
		number := func(value int64) layers.Variable { return layers.Counter(m, value) }
		small := func() []layers.Variable { return []layers.Variable{layers.FC(x, 6, layers.Act("tanh"))} }
		large := func() []layers.Variable { return []layers.Variable{layers.FC(layers.FC(x, 3), 6)} }
		return layers.WhileLoop(func(v []layers.Variable) layers.Variable { return layers.LessThan(v[0], number(3)) },
			func(v []layers.Variable) []layers.Variable {
				now := layers.Cond(layers.Equal(v[0], number(1)), small, large)
				return []layers.Variable{layers.Sums([]layers.Variable{v[0], number(1)}), layers.Add(v[1], now[0])}
			}, []layers.Variable{number(0), layers.FC(x, 6)})[1]
	},
}

// TestLawOfControlFlow trains a model with each op on 1 to 3 trainers and two pservers: it computes what the reference computes, bit for bit.
func TestLawOfControlFlow(t *testing.T) {
	comparesValues(t)
	l := listener(t)
	for _, name := range slices.Sorted(maps.Keys(controlModels)) {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			x, label := layers.Data(m, "x", layers.Dims(12)), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
			rows := layers.FC(controlModels[name](m, layers.FC(x, 12)), testkit.Classes)
			loss := layers.Mean(layers.CrossEntropy(layers.Softmax(rows), label), layers.Name("loss"))
			optimizer.Adagrad(0.1).Minimize(loss)
			s := subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}}
			for _, spec := range []*remote.JobSpec{
				{Trainers: 1, Pservers: 2, MinBlockSize: 1, Save: t.TempDir()},
				{Trainers: 2, Devices: 2, Pservers: 2, MinBlockSize: 1, Save: t.TempDir()},
				{Trainers: 3, Pservers: 1, MinBlockSize: 1, Save: t.TempDir()},
			} {
				want, err := oracleFor(s.Program, spec)
				if err != nil {
					t.Fatal(err)
				}
				err = checkFedLaw(l, s, spec, []int64{8, 5, 13}, want)
				want.Close()
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
