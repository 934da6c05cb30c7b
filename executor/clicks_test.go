package executor_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// clicks is a small model of clicks: a table of words that two lookups share, one of them with padding, and a table of weights.
func clicks(t *testing.T, minimizer *optimizer.Optimizer, opts ...layers.Option) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(3)
	embed := func(name, table string, width int64, more ...layers.Option) layers.Variable {
		ids := layers.Data(m, name, layers.Dims(4, 1), layers.DType(tensor.Int64))
		with := append(slices.Clone(opts), layers.Param(layers.ParamAttr{Name: table}))
		return layers.Embedding(ids, 50, width, append(with, more...)...)
	}
	words := layers.Add(embed("query", "words", 6), embed("title", "words", 6, layers.PaddingIndex(0)))
	linear := layers.ReduceSum(embed("place", "weights", 1), layers.Axes(1))
	deep := layers.FC(layers.Reshape(words, []int64{-1, 24}), 8, layers.Act("relu"))
	logit := layers.Add(layers.FC(deep, 1), linear)
	clicked := layers.Data(m, "clicked", layers.Dims(1))
	minimizer.Minimize(layers.Mean(layers.SigmoidCrossEntropyWithLogits(logit, clicked), layers.Name("loss")))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// click returns 8 records of which the ids depend on step.
func click(step int64) executor.Feed {
	feed := executor.Feed{}
	for at, name := range []string{"query", "title", "place"} {
		ids, _ := tensor.New(tensor.Int64, 8, 4, 1)
		for i := range ids.Int64s() {
			ids.Int64s()[i] = (step*7 + int64(i*i*(at+1))) % 50
		}
		feed[name] = ids
	}
	clicked, _ := tensor.New(tensor.Float32, 8, 1)
	for i := range clicked.Float32s() {
		clicked.Float32s()[i] = float32(i % 2)
	}
	feed["clicked"] = clicked
	return feed
}
