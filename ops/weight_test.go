package ops_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// TestWeightOf builds models whose losses average over records, sentences or words, and fetches further numbers.
func TestWeightOf(t *testing.T) {
	for name, c := range map[string]struct {
		lod   int
		build func(words layers.Variable) (loss layers.Variable, fetch []layers.Variable)
		want  string // a part of the name of the variable, or of the error
		fails bool
	}{
		"rows": {0, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.Mean(layers.FC(words, 1)), nil
		}, "", false},
		"words": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			h := layers.FC(words, 1, layers.Name("words_out"))
			return layers.Scale(layers.Mean(h), 2, 0), []layers.Variable{layers.Mean(layers.FC(words, 3)), h}
		}, "words_out", false},
		"sentences": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			pooled := layers.SequencePool(words, "sum")
			return layers.Mean(layers.FC(pooled, 1, layers.Name("sentence_out"))), []layers.Variable{layers.Mean(pooled)}
		}, "sentence_out", false},
		"sentences of texts": {2, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.Mean(layers.FC(layers.SequencePool(words, "sum"), 1, layers.Name("sentence_out"))), nil
		}, "sentence_out", false},
		"a fetched mean over words beside sentences": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.Mean(layers.FC(layers.SequencePool(words, "sum"), 1)), []layers.Variable{layers.Mean(words)}
		}, `over the rows of "words"`, true},
		"a fetched number that is no mean": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.Mean(layers.FC(words, 1)), []layers.Variable{layers.Sqrt(layers.Mean(words))}
		}, "computed by sqrt", true},
		"a sum": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.ReduceSum(layers.FC(words, 1)), nil
		}, "", false},
		"a sum with state": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.ReduceSum(layers.FC(layers.BatchNorm(words), 1)), nil
		}, "words", false},
	} {
		m := layers.NewModel()
		loss, fetch := c.build(layers.Data(m, "words", layers.Dims(4), layers.DType(tensor.Float32), layers.LoD(c.lod)))
		optimizer.SGD(0.1).Minimize(loss)
		p, err := m.Program()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := ops.WeightOf(p, layers.Names(append(fetch, loss)...))
		switch {
		case c.fails && (!errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %q, %v", name, got, err)
		case !c.fails && (err != nil || !strings.HasPrefix(got, c.want) || c.want == "" && got != ""):
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// TestWeightOfATestProgram follows what is fetched, because there is no loss.
func TestWeightOfATestProgram(t *testing.T) {
	m := layers.NewModel()
	words := layers.Data(m, "words", layers.Dims(4), layers.LoD(1))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	accuracy := layers.Accuracy(layers.Softmax(layers.FC(words, 3)), label)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ops.WeightOf(p, []string{accuracy.Name()}); err != nil || got != "label" {
		t.Errorf("%q, %v", got, err)
	}
}
