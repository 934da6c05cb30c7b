package transpiler_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// words are the data x [-1, 4, 3] and what a layer makes of it.
func words(m *layers.Model) (x, hidden layers.Variable) {
	x = layers.Data(m, "x", layers.Dims(4, 3))
	return x, layers.FC(x, 2, layers.NumFlattenDims(2), layers.Act("tanh"))
}

// above says of each word whether its first number is above a limit.
func above(x layers.Variable, limit float64) layers.Variable {
	first := layers.Reshape(layers.Slice(x, []int{2}, []int64{0}, []int64{1}), []int64{-1, 4})
	return layers.GreaterThan(first, layers.FillLike(first, limit))
}

// rowNumbers has the number of its row in each place of [-1, width]: those of a trainer begin with 0.
func rowNumbers(x layers.Variable, width int) layers.Variable {
	m := x.Model()
	op := func(kind string, in layers.In, attrs layers.Attrs) layers.Variable {
		return layers.OpInto(m, kind, in, attrs, layers.In{"Out": layers.NewVariables(m, kind, 1)}).All("Out")[0]
	}
	rows := layers.Cast(op("slice", layers.In{"Input": {layers.Shape(x)}}, layers.Attrs{"axes": []int64{0}, "starts": []int64{0}, "ends": []int64{1}}), tensor.Int64)
	number := func(n float64) layers.Variable {
		return layers.FillConstant(m, n, []int64{1}, layers.DType(tensor.Int64))
	}
	numbers := op("range", layers.In{"Start": {number(0)}, "End": {rows}, "Step": {number(1)}}, nil)
	return layers.Expand(layers.Unsqueeze(numbers, []int{1}), []int{1, width})
}

// chosen are losses of rows that data chooses.
var chosen = map[string]func(m *layers.Model) layers.Variable{
	"where_index and gather_nd": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		return layers.Mean(layers.FC(layers.GatherND(hidden, layers.WhereIndex(above(x, 0))), 1))
	},
	"costs of few words": func(m *layers.Model) layers.Variable { // a trainer may have none of them
		x, hidden := words(m)
		cost := layers.Reshape(layers.FC(hidden, 1, layers.NumFlattenDims(2)), []int64{-1, 1})
		return layers.Mean(layers.GatherND(cost, layers.WhereIndex(layers.Reshape(above(x, 1.2), []int64{-1, 1}))))
	},
	"rows that gather takes": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		index := layers.WhereIndex(layers.Reshape(above(x, 0), []int64{-1}))
		rows := layers.Gather(layers.Reshape(hidden, []int64{-1, 2}), layers.Squeeze(layers.Cast(index, tensor.Int32), layers.Axes(1)))
		return layers.Add(layers.Mean(layers.FC(rows, 1)), layers.Mean(layers.Square(hidden)))
	},
	"elements that masked_select takes": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		mask := above(x, 0)
		cost := layers.Reshape(layers.FC(hidden, 1, layers.NumFlattenDims(2)), []int64{-1, 4})
		weight := layers.Reshape(layers.Slice(x, []int{2}, []int64{1}, []int64{2}), []int64{-1, 4})
		return layers.Mean(layers.Mul(layers.MaskedSelect(cost, mask), layers.MaskedSelect(weight, mask)))
	},
	"vectors of chosen words": func(m *layers.Model) layers.Variable {
		ids := layers.Data(m, "ids", layers.Dims(4), layers.DType(tensor.Int64))
		mask := layers.GreaterThan(ids, layers.FillLike(ids, 0))
		return layers.Mean(layers.FC(layers.Embedding(layers.Unsqueeze(layers.MaskedSelect(ids, mask), []int{1}), 10, 3), 1))
	},
	"a sum of chosen costs": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		return layers.ReduceSum(layers.MaskedSelect(layers.Reshape(layers.FC(hidden, 1, layers.NumFlattenDims(2)), []int64{-1, 4}), above(x, 0)))
	},
	"the last word of each record": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		last := layers.Unsqueeze(layers.ArgMax(layers.ReduceMean(x, layers.Axes(2)), 1), []int{1})
		return layers.Mean(layers.FC(layers.GatherND(hidden, layers.Concat([]layers.Variable{rowNumbers(x, 1), last}, -1)), 1))
	},
	"the same row of each record": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		last := layers.Scale(rowNumbers(x, 1), 4, 3)
		return layers.Mean(layers.FC(layers.GatherND(layers.Reshape(hidden, []int64{-1, 2}), last), 1))
	},
	"words of each record in another order": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		_, order := layers.ArgSort(layers.ReduceMean(x, layers.Axes(2)))
		words := layers.GatherND(hidden, layers.Stack([]layers.Variable{rowNumbers(x, 4), order}, 2))
		return layers.Mean(layers.FC(words, 1))
	},
}

// Losses of rows that data chooses obey the law, and trainers that divide the batch learn what one machine learns, up to rounding.
func TestRowsThatDataChooses(t *testing.T) {
	for name, loss := range chosen {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.1).Minimize(layers.Scale(loss(m), 1, 0, layers.Name("loss")))
			p := built(t, m)
			for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 2}, {Trainers: 4, PServers: 1, MinBlockSize: 4}, {Trainers: 1, PServers: 2, Mode: transpiler.Async}} {
				if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
			alone := trained(t, p, 1)
			for name, got := range trained(t, p, 3) {
				for i, want := range alone[name] {
					if math.Abs(got[i]-want) > 1e-5*max(1, math.Abs(want)) {
						t.Fatalf("%s[%d] is %v with three trainers, %v with one", name, i, got[i], want)
					}
				}
			}
		})
	}
}

// labelled has a class of each chosen word, and what a network says of it.
func labelled(m *layers.Model, limit float64, of func(rows layers.Variable) layers.Variable) (logits, label, hidden layers.Variable) {
	x, hidden := words(m)
	index := layers.WhereIndex(above(x, limit))
	y := layers.Data(m, "y", layers.Dims(4), layers.DType(tensor.Int64))
	label = layers.Unsqueeze(layers.GatherND(y, index), []int{1}).StopGradient()
	return layers.FC(of(layers.GatherND(hidden, index)), 3), label, hidden
}

// observed are models that look at chosen rows, or keep something of them.
var observed = map[string]func(m *layers.Model) layers.Variable{
	"an accuracy beside a mean over them": func(m *layers.Model) layers.Variable {
		logits, label, _ := labelled(m, 0.5, func(rows layers.Variable) layers.Variable { return rows })
		layers.Scale(layers.Accuracy(layers.Softmax(logits), label), 1, 0, layers.Name("metric"))
		cost, _ := layers.SoftmaxWithCrossEntropy(logits, label)
		return layers.Mean(cost)
	},
	"an accuracy beside a mean over all words": func(m *layers.Model) layers.Variable {
		logits, label, hidden := labelled(m, 0.5, func(rows layers.Variable) layers.Variable { return rows })
		layers.Scale(layers.Accuracy(layers.Softmax(logits), label), 1, 0, layers.Name("metric"))
		return layers.Mean(layers.Square(hidden))
	},
	"a mean beside a sum": func(m *layers.Model) layers.Variable {
		x, hidden := words(m)
		cost := layers.MaskedSelect(layers.Reshape(layers.FC(hidden, 1, layers.NumFlattenDims(2)), []int64{-1, 4}), above(x, 0.5))
		layers.Mean(layers.Square(cost), layers.Name("metric"))
		return layers.ReduceSum(cost)
	},
	"counts of an AUC that go on": func(m *layers.Model) layers.Variable { // of trainers they add up
		x, hidden := words(m)
		index := layers.WhereIndex(above(x, 0))
		second := layers.Slice(layers.GatherND(x, index), []int{1}, []int64{1}, []int64{2})
		label := layers.Cast(layers.GreaterThan(second, layers.FillLike(second, 0)), tensor.Int64).StopGradient()
		logits := layers.FC(layers.GatherND(hidden, index), 2)
		count := func() layers.Variable {
			return layers.CreateParameter(m, []int64{1, 8}, tensor.Int64, layers.ParamAttr{Frozen: true, Initializer: layers.Constant(0)})
		}
		positive, negative := count(), count()
		layers.OpInto(m, "auc", layers.In{"Predict": {layers.Softmax(logits)}, "Label": {label}, "StatPos": {positive}, "StatNeg": {negative}}, layers.Attrs{"num_thresholds": 7, "slide_steps": 0},
			layers.In{"AUC": layers.NewVariables(m, "auc", 1), "StatPosOut": {positive}, "StatNegOut": {negative}})
		cost, _ := layers.SoftmaxWithCrossEntropy(logits, label)
		return layers.Mean(cost, layers.Name("metric"))
	},
	"chosen rows that are normalized": func(m *layers.Model) layers.Variable { // a trainer may have one of them, or none
		logits, label, _ := labelled(m, 1, func(rows layers.Variable) layers.Variable { return layers.BatchNorm(rows) })
		cost, _ := layers.SoftmaxWithCrossEntropy(logits, label)
		return layers.Mean(cost, layers.Name("metric"))
	},
	"dropout of chosen rows": func(m *layers.Model) layers.Variable {
		logits, label, _ := labelled(m, 0, func(rows layers.Variable) layers.Variable { return layers.Dropout(rows, 0.5) })
		cost, _ := layers.SoftmaxWithCrossEntropy(logits, label)
		return layers.Mean(cost, layers.Name("metric"))
	},
	"words of sequences by a mask": func(m *layers.Model) layers.Variable {
		x := layers.Data(m, "x", layers.Dims(3), layers.LoD(1))
		hidden := layers.FC(x, 2, layers.Act("tanh"))
		first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
		rows := layers.Slice(layers.WhereIndex(layers.GreaterThan(first, layers.FillLike(first, 0.3))), []int{1}, []int64{0}, []int64{1})
		return layers.Mean(layers.FC(layers.Gather(hidden, rows), 1), layers.Name("metric"))
	},
	"costs of words by a mask": func(m *layers.Model) layers.Variable {
		x := layers.Data(m, "x", layers.Dims(3), layers.LoD(1))
		cost := layers.FC(layers.FC(x, 2, layers.Act("tanh")), 1)
		first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
		chosen := layers.MaskedSelect(cost, layers.GreaterThan(first, layers.FillLike(first, 0.3)))
		return layers.Mean(chosen, layers.Name("metric"))
	},
	"places of words by a mask": func(m *layers.Model) layers.Variable {
		x := layers.Data(m, "x", layers.Dims(3), layers.LoD(1))
		cost := layers.FC(layers.FC(x, 2, layers.Act("tanh")), 1)
		first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
		return layers.Mean(layers.GatherND(cost, layers.WhereIndex(layers.GreaterThan(first, layers.FillLike(first, 0.3)))), layers.Name("metric"))
	},
}

// Metrics, moving statistics and dropout of chosen rows obey the law. Trainers report the metric of the batch, and keep the moving statistics that the rows of all make, each part weighed
// by its rows.
func TestWhatIsKeptOfChosenRows(t *testing.T) {
	for name, loss := range observed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.1).Minimize(layers.Scale(loss(m), 1, 0, layers.Name("loss")))
			p := built(t, m)
			for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 2}, {Trainers: 3, PServers: 2}, {Trainers: 4, PServers: 1, MinBlockSize: 4}, {Trainers: 1, PServers: 2, Mode: transpiler.Async}} {
				if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
			if name == "chosen rows that are normalized" || name == "dropout of chosen rows" {
				return // each trainer normalizes by its rows, and draws for them
			}
			alone := trained(t, p, 1, "metric")
			for name, got := range trained(t, p, 3, "metric") {
				for i, want := range alone[name] {
					if math.Abs(got[i]-want) > 1e-5*max(1, math.Abs(want)) {
						t.Fatalf("%s[%d] is %v with three trainers, %v with one", name, i, got[i], want)
					}
				}
			}
		})
	}
}

// The moving mean is that of all chosen rows of the batch, however many of them each trainer has.
func TestMovingStatisticsOfChosenRows(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(2))
	first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
	rows := layers.Gather(x, layers.Slice(layers.WhereIndex(layers.GreaterThan(first, layers.FillLike(first, 0))), []int{1}, []int64{0}, []int64{1}))
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.FC(layers.BatchNorm(rows), 1)))
	p := built(t, m)
	value, err := tensor.FromSlice([]float32{1, 10, 2, 20, 3, 30, 4, 40, -1, 9, -1, 9, 6, 80}, 7, 2) // the trainers choose 2, 2 and 1 rows
	if err != nil {
		t.Fatal(err)
	}
	e, err := reference.New(p, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Run(t.Context(), p, executor.Feed{"x": value}); err != nil {
		t.Fatal(err)
	}
	for _, name := range executor.Persistables(p) {
		v, _ := p.Global().Find(name)
		value, _ := e.Scope().Find(name)
		if v.IsParameter || value.Len() != 2 || value.Float32s()[0] < 0.2 || value.Float32s()[0] > 0.5 { // the moving variance is near 1
			continue
		}
		for i, want := range []float64{0.1 * 3.2, 0.1 * 36} {
			if got := float64(value.Float32s()[i]); math.Abs(got-want) > 1e-5 {
				t.Errorf("%s[%d] is %v, not %v", name, i, got, want)
			}
		}
		return
	}
	t.Error("no moving mean")
}

// What a trainer would choose otherwise than one machine is refused.
func TestChoicesThatNeedTheWholeBatch(t *testing.T) {
	for name, loss := range map[string]func(m *layers.Model) layers.Variable{
		"an index that is fed": func(m *layers.Model) layers.Variable {
			_, hidden := words(m)
			return layers.Mean(layers.FC(layers.GatherND(hidden, layers.Data(m, "index", layers.Dims(2), layers.DType(tensor.Int64))), 1))
		},
		"numbers of rows as numbers of words": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			return layers.Mean(layers.FC(layers.GatherND(hidden, rowNumbers(x, 2)), 1))
		},
		"numbers of rows behind others": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			last := layers.Unsqueeze(layers.ArgMax(layers.ReduceMean(x, layers.Axes(2)), 1), []int{1})
			return layers.Mean(layers.FC(layers.GatherND(hidden, layers.Concat([]layers.Variable{last, rowNumbers(x, 1)}, -1)), 1))
		},
		"numbers of records in rows of words": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			return layers.Mean(layers.FC(layers.GatherND(layers.Reshape(hidden, []int64{-1, 2}), rowNumbers(x, 1)), 1))
		},
		"another row of each record": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			other := layers.Scale(rowNumbers(x, 1), 5, 0)
			return layers.Mean(layers.FC(layers.GatherND(layers.Reshape(hidden, []int64{-1, 2}), other), 1))
		},
		"places of words in rows of records": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			index := layers.WhereIndex(layers.Reshape(above(x, 0), []int64{-1}))
			return layers.Mean(layers.FC(layers.Gather(layers.Tile(layers.Reshape(hidden, []int64{-1, 8}), []int{1, 1}), index), 1))
		},
		"places of the whole batch in a table": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			index := layers.Slice(layers.WhereIndex(above(x, 0)), []int{1}, []int64{0}, []int64{1})
			return layers.Add(layers.Mean(hidden), layers.Mean(layers.Embedding(index, 10, 2)))
		},
		"rows of two masks": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			cost := layers.Reshape(layers.FC(hidden, 1, layers.NumFlattenDims(2)), []int64{-1, 4})
			return layers.Mean(layers.Mul(layers.MaskedSelect(cost, above(x, 0)), layers.MaskedSelect(cost, above(x, 0))))
		},
		"the largest of chosen rows": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			return layers.Mean(layers.ReduceMax(layers.GatherND(hidden, layers.WhereIndex(above(x, 0)))))
		},
		"chosen rows that a branch replaces": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			cost := layers.Reshape(layers.FC(hidden, 1, layers.NumFlattenDims(2)), []int64{-1, 4})
			kept, limit := layers.MaskedSelect(cost, above(x, 0)), layers.FillConstant(m, 0, []int64{1})
			layers.Switch(m, layers.SwitchCase{If: layers.LessThan(limit, layers.FillConstant(m, 1, []int64{1})), Then: func() { layers.AssignTo(kept, layers.Reshape(cost, []int64{-1})) }})
			return layers.Mean(kept)
		},
		"chosen rows in another order": func(m *layers.Model) layers.Variable {
			x, hidden := words(m)
			return layers.Mean(layers.CumSum(layers.GatherND(hidden, layers.WhereIndex(above(x, 0))), layers.Axis(0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.1).Minimize(loss(m))
			_, err := transpiler.Transpile(t.Context(), built(t, m), transpiler.Config{Trainers: 2, PServers: 1})
			if fault.KindOf(err) != fault.Unsupported || strings.Contains(err.Error(), "share sums") {
				t.Errorf("%v", err)
			}
		})
	}
}
