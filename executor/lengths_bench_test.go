package executor_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkNewLengths trains on batches of sequences whose lengths were not met before, so that each step gives a plan other dims, and on batches of lengths that
// were. The model is small: giving a plan other dims is a large part of the time.
func BenchmarkNewLengths(b *testing.B) {
	m := layers.NewModel().Seed(1)
	words := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	e := layers.Embedding(words, 100, 8)
	c1 := layers.SequenceConvPool(e, 8, 3, "sqrt", layers.Act("tanh"))
	c2 := layers.SequenceConvPool(e, 8, 4, "sqrt", layers.Act("tanh"))
	p := layers.FCs([]layers.Variable{c1, c2}, 2, layers.Act("softmax"))
	loss := layers.Mean(layers.CrossEntropy(p, label))
	optimizer.Adam(0.01).Minimize(loss)
	prog, err := m.Program()
	if err != nil {
		b.Fatal(err)
	}
	l, _ := tensor.FromSlice(make([]int64, 4), 4, 1)
	for name, lengths := range map[string]int{"new": 1000, "known": 1} {
		b.Run(name, func(b *testing.B) {
			exe := executor.New(executor.WithWorkers(1))
			defer exe.Close()
			for i := 0; b.Loop(); i++ {
				n := 1000 - lengths/2 + i*7%lengths
				x, _ := tensor.FromSlice(make([]int64, n), int64(n), 1)
				x.SetLoD([][]int64{{0, 5, 9, 12, int64(n)}})
				if _, err := exe.Run(b.Context(), prog, executor.Feed{"words": x, "label": l}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
