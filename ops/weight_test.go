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
		"weights of words": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			weights := layers.Slice(words, []int{1}, []int64{0}, []int64{1})
			cost := layers.Mul(layers.FC(words, 1), weights)
			return layers.Div(layers.ReduceSum(cost), layers.ReduceSum(weights, layers.Name("words_weigh"))), nil
		}, "words_weigh", false},
		"weights of rows": {0, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			weights := layers.Slice(words, []int{1}, []int64{0}, []int64{1})
			cost := layers.Mul(layers.FC(words, 1), weights)
			return layers.Scale(layers.Div(layers.ReduceSum(cost), layers.ReduceSum(weights, layers.Name("rows_weigh"))), 3, 0), nil
		}, "rows_weigh", false},
		"weights that are learned": {0, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.Div(layers.ReduceSum(words), layers.ReduceSum(layers.FC(words, 1))), nil
		}, "", false}, // trainers share both sums
		"a mean divided by a sum": {0, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			return layers.Div(layers.Mean(layers.FC(words, 1)), layers.ReduceSum(words)), nil
		}, "", false},
		"a mean over words and one over sentences": {1, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			pooled := layers.Mean(layers.FC(layers.SequencePool(words, "sum"), 1))
			return layers.Add(pooled, layers.Mean(layers.FC(words, 1))), []layers.Variable{layers.Mean(words)}
		}, `over the rows of "words"`, true},
		"a mean over weights beside one over rows": {0, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			weights := layers.Slice(words, []int{1}, []int64{0}, []int64{1})
			loss := layers.Div(layers.ReduceSum(layers.Mul(layers.FC(words, 1), weights)), layers.ReduceSum(weights))
			return loss, []layers.Variable{layers.Mean(words)}
		}, "over the weights that", true},
		"state beside weights": {0, func(words layers.Variable) (layers.Variable, []layers.Variable) {
			weights := layers.Slice(words, []int{1}, []int64{0}, []int64{1})
			return layers.Div(layers.ReduceSum(layers.Mul(layers.FC(layers.BatchNorm(words), 1), weights)), layers.ReduceSum(weights)), nil
		}, "reduce_sum", false},
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
			t.Errorf("%s: %+v, %v", name, got, err)
		case !c.fails && (err != nil || !strings.HasPrefix(got.Variable, c.want) || c.want == "" && got != (ops.Weight{})):
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
		for _, v := range p.Global().Vars() { // as in programs of Fluid before 1.6
			v.NeedCheckFeed = false
		}
		if old, oldErr := ops.WeightOf(p, layers.Names(append(fetch, loss)...)); old != got || fault.KindOf(oldErr) != fault.KindOf(err) {
			t.Errorf("%s without marks of what is fed: %+v, %v, want %+v, %v", name, old, oldErr, got, err)
		}
	}
}

// The words of one feed and the labels of another weigh alike where a cost compares them one by one, as in a model of the next word.
func TestWeightOfLabelsOfOtherSequences(t *testing.T) {
	for compared, kind := range map[bool]error{true: nil, false: fault.Unsupported} {
		m := layers.NewModel()
		words := layers.Data(m, "words", layers.Dims(4), layers.LoD(1))
		next := layers.Data(m, "next", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
		probabilities := layers.Softmax(layers.FC(words, 3))
		loss := layers.Mean(probabilities)
		if compared {
			loss = layers.Mean(layers.CrossEntropy(probabilities, next))
		}
		hit := layers.Mean(layers.Cast(next, tensor.Float32))
		optimizer.SGD(0.1).Minimize(loss)
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ops.WeightOf(p, layers.Names(loss, hit)); !errors.Is(err, kind) {
			t.Errorf("compared by a cost: %v, %v, want %v", compared, err, kind)
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
	if got, err := ops.WeightOf(p, []string{accuracy.Name()}); err != nil || got != (ops.Weight{Variable: "label"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
