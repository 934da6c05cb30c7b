package ops_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// looped appends a loop of n runs.
func looped(m *layers.Model, n layers.Variable, body func()) {
	i := layers.Counter(m, 0)
	more := layers.LessThan(i, n)
	layers.While(more, func() {
		body()
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, n))
	})
}

// stepped sums up the costs of records in steps, one for each row of the costs in another order of axes.
func stepped(m *layers.Model, cost layers.Variable, axes []int) layers.Variable {
	rows := layers.Transpose(cost, axes)
	rnn := layers.NewStaticRNN(m)
	rnn.Block(func() {
		now, before := rnn.StepInput(rows), rnn.Memory(nil, 0)
		next := layers.Add(now, before)
		rnn.UpdateMemory(before, next)
		rnn.Output(next)
	})
	return rnn.Result()
}

// halved computes with costs above 1 in another way. If one is true, the result is one half.
func halved(m *layers.Model, cost layers.Variable, one bool) (result layers.Variable) {
	ie := layers.NewIfElse(layers.GreaterThan(cost, layers.FillLike(cost, 1)))
	ie.True(func() { ie.Output(layers.Abs(ie.Input(cost))) })
	ie.False(func() { ie.Output(layers.Square(ie.Input(cost))) })
	result = ie.Result()
	if one {
		for _, op := range m.Building().Global().Ops {
			if op.Type == "split_lod_tensor" {
				result, _ = m.Variable(op.Out("OutTrue"))
			}
		}
	}
	return result
}

func TestGradientsMergeAsTheLossReducesTheBatch(t *testing.T) {
	type variable = layers.Variable
	penalty := func(m *layers.Model) variable { return layers.ReduceSum(layers.Square(m.Parameters()[0])) }
	half := func(x variable) variable { return layers.Scale(x, 0.5, 0) }
	for name, test := range map[string]struct {
		loss func(m *layers.Model, cost variable) variable // of a cost [-1, 1]
		want ops.Merge
		kind fault.Kind
	}{
		"mean":           {func(_ *layers.Model, cost variable) variable { return layers.Mean(cost) }, ops.MergeMean, fault.OK},
		"reduce_mean":    {func(_ *layers.Model, cost variable) variable { return layers.ReduceMean(cost) }, ops.MergeMean, fault.OK},
		"reduce_sum":     {func(_ *layers.Model, cost variable) variable { return layers.ReduceSum(cost) }, ops.MergeSum, fault.OK},
		"scaled mean":    {func(_ *layers.Model, cost variable) variable { return half(layers.Mean(cost)) }, ops.MergeMean, fault.OK},
		"mean of scaled": {func(_ *layers.Model, cost variable) variable { return layers.Mean(half(cost)) }, ops.MergeMean, fault.OK},
		"mean of a sum":  {func(_ *layers.Model, cost variable) variable { return layers.Mean(layers.ReduceSum(cost)) }, ops.MergeSum, fault.OK},
		"two means": {func(_ *layers.Model, cost variable) variable {
			return layers.Add(layers.Mean(cost), layers.Mean(layers.Abs(cost)))
		}, ops.MergeMean, fault.OK},
		"mean and penalty": {func(m *layers.Model, cost variable) variable { return layers.Add(layers.Mean(cost), half(penalty(m))) },
			ops.MergeMean, fault.OK},
		"sums of two sums": {func(_ *layers.Model, cost variable) variable {
			return layers.Sums([]variable{layers.ReduceSum(cost), half(layers.ReduceSum(cost))})
		}, ops.MergeSum, fault.OK},
		"a loop": {func(m *layers.Model, cost variable) variable {
			looped(m, layers.Counter(m, 3), func() { layers.AssignTo(cost, layers.Square(cost)) })
			return layers.Mean(cost)
		}, ops.MergeMean, fault.OK},
		"a loop that mixes rows": {func(m *layers.Model, cost variable) variable {
			looped(m, layers.Counter(m, 3), func() { layers.AssignTo(cost, layers.Mul(cost, layers.Mean(cost))) })
			return layers.Mean(cost)
		}, 0, fault.Unsupported},
		"a loop that mixes rows in its second run": {func(m *layers.Model, cost variable) variable {
			total := layers.FillConstant(m, 0, []int64{1})
			looped(m, layers.Counter(m, 3), func() {
				layers.AssignTo(cost, layers.Mul(cost, total))
				layers.AssignTo(total, layers.Mean(cost))
			})
			return layers.Mean(cost)
		}, 0, fault.Unsupported},
		"a loop that ends by what rows say": {func(m *layers.Model, cost variable) variable {
			looped(m, layers.Cast(layers.Reshape(layers.Mean(cost), []int64{1}), tensor.Int64), func() { layers.AssignTo(cost, layers.Square(cost)) })
			return layers.Mean(cost)
		}, 0, fault.Unsupported},
		"a branch by what rows say": {func(m *layers.Model, cost variable) variable {
			small := layers.LessThan(layers.Reshape(layers.Mean(cost), []int64{1}), layers.FillConstant(m, 1, []int64{1}))
			layers.Switch(m, layers.SwitchCase{If: small, Then: func() { layers.AssignTo(cost, layers.Square(cost)) }})
			return layers.Mean(cost)
		}, 0, fault.Unsupported},
		"steps of one length": {func(m *layers.Model, cost variable) variable { return layers.Mean(stepped(m, cost, []int{1, 0})) }, ops.MergeMean, fault.OK},
		"steps that are the records": {func(m *layers.Model, cost variable) variable { return layers.Mean(stepped(m, cost, []int{0, 1})) },
			0, fault.Unsupported},
		"halves":   {func(m *layers.Model, cost variable) variable { return layers.Mean(halved(m, cost, false)) }, ops.MergeMean, fault.OK},
		"one half": {func(m *layers.Model, cost variable) variable { return layers.Mean(halved(m, cost, true)) }, 0, fault.Unsupported},
		"chosen elements": {func(m *layers.Model, cost variable) variable {
			return layers.Mean(layers.MaskedSelect(cost, layers.GreaterThan(cost, layers.FillLike(cost, 1))))
		}, ops.MergeMean, fault.OK},
		"the largest of chosen elements": {func(m *layers.Model, cost variable) variable {
			return layers.ReduceMax(layers.MaskedSelect(cost, layers.GreaterThan(cost, layers.FillLike(cost, 1))))
		}, 0, fault.Unsupported},
		"results of a branch": {func(m *layers.Model, cost variable) variable {
			same := func() []variable { return []variable{layers.Abs(cost)} }
			return layers.Mean(layers.Cond(layers.LessThan(layers.Counter(m, 1), layers.Counter(m, 2)), same, same)[0])
		}, ops.MergeMean, fault.OK},
		"results of a branch by what rows say": {func(m *layers.Model, cost variable) variable {
			same := func() []variable { return []variable{layers.Abs(cost)} }
			return layers.Mean(layers.Cond(layers.LessThan(layers.Reshape(layers.Mean(cost), []int64{1}), layers.FillConstant(m, 1, []int64{1})), same, same)[0])
		}, 0, fault.Unsupported},
		"mean and sum": {func(_ *layers.Model, cost variable) variable {
			return layers.Add(layers.Mean(cost), layers.ReduceSum(cost))
		}, ops.MergeMean, fault.OK},
		"sum and penalty": {func(m *layers.Model, cost variable) variable { return layers.Add(layers.ReduceSum(cost), penalty(m)) }, ops.MergeMean,
			fault.OK},
		"mean divergence": {func(_ *layers.Model, cost variable) variable {
			return layers.KLDivLoss(layers.Scale(cost, -1, 0), cost, "mean")
		}, ops.MergeMean, fault.OK},
		"divergence by rows": {func(_ *layers.Model, cost variable) variable {
			return layers.KLDivLoss(layers.Scale(cost, -1, 0), cost, "batchmean")
		}, ops.MergeMean,
			fault.OK},
		"sum of divergences": {func(_ *layers.Model, cost variable) variable {
			return layers.KLDivLoss(layers.Scale(cost, -1, 0), cost, "sum")
		}, ops.MergeSum, fault.OK},
		"mean of divergences": {func(_ *layers.Model, cost variable) variable {
			return layers.Mean(layers.KLDivLoss(layers.Scale(cost, -1, 0), cost, "none"))
		}, ops.MergeMean, fault.OK},
		"divergence of a mean": {func(_ *layers.Model, cost variable) variable {
			return layers.KLDivLoss(layers.Mean(cost), layers.Mean(cost), "sum")
		}, ops.MergeMean, fault.OK},
		"rows over a sum of weights": {func(m *layers.Model, cost variable) variable {
			return layers.ReduceSum(layers.Div(cost, layers.ReduceSum(layers.Data(m, "weight", layers.Dims(1)))))
		}, ops.MergeMean, fault.OK},
		"rows over a sum that is learned": {func(_ *layers.Model, cost variable) variable {
			return layers.ReduceSum(layers.Div(cost, layers.ReduceSum(layers.Square(cost))))
		}, 0, fault.Unsupported},
		"rows over a sum that no gradient reaches": {func(_ *layers.Model, cost variable) variable {
			return layers.ReduceSum(layers.Div(cost, layers.ReduceSum(layers.Square(cost).StopGradient())))
		}, ops.MergeMean, fault.OK},
		"root of a mean": {func(_ *layers.Model, cost variable) variable { return layers.Sqrt(layers.Mean(cost)) }, ops.MergeMean, fault.OK},
		"product of two means": {func(_ *layers.Model, cost variable) variable { return layers.Mul(layers.Mean(cost), layers.Mean(cost)) },
			ops.MergeMean, fault.OK},
		"rows less a learned mean": {func(_ *layers.Model, cost variable) variable {
			return layers.Mean(layers.Square(layers.Sub(cost, layers.Mean(cost))))
		}, 0, fault.Unsupported},
		"only a penalty": {func(m *layers.Model, _ variable) variable { return penalty(m) }, 0, fault.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel()
			cost := layers.SquareErrorCost(layers.FC(layers.Data(m, "x", layers.Dims(3)), 1), layers.Data(m, "y", layers.Dims(1)))
			optimizer.SGD(0.1).Minimize(test.loss(m, cost))
			p, err := m.Program()
			if err != nil {
				t.Fatal(err)
			}
			got, err := ops.GradientMerge(p)
			if got != test.want || fault.KindOf(err) != test.kind {
				t.Errorf("got %v, %v, want %v, %v", got, err, test.want, test.kind)
			}
			var f *fault.Fault
			if err != nil && (!errors.As(err, &f) || f.Line == "" || f.Hint == "") {
				t.Errorf("no line or hint in %v", err)
			}
		})
	}
}

func TestGradientMergeWantsABackwardPass(t *testing.T) {
	m := layers.NewModel()
	layers.Mean(layers.Data(m, "x", layers.Dims(1)))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ops.GradientMerge(p); !errors.Is(err, fault.InvalidProgram) {
		t.Errorf("got %v", err)
	}
}

// A trainer has only a part of the rows of a batch. So an op that mixes rows is refused, wherever the loss depends on it, and named.
func TestOpsThatMixRowsAreRefused(t *testing.T) {
	type variable = layers.Variable
	product := func(x, y variable, opts ...layers.Option) variable { return layers.MatMul(x, y, opts...) }
	for name, test := range map[string]struct {
		rows  func(m *layers.Model, x variable) variable // of x [-1, 4]
		mixes string                                     // the op that is named, "" if rows stay apart
	}{
		"reshaped rows":        {func(_ *layers.Model, x variable) variable { return layers.Reshape(x, []int64{-1, 2}) }, ""},
		"images":               {func(_ *layers.Model, x variable) variable { return layers.Reshape(x, []int64{0, 2, -1}) }, ""},
		"rows that become one": {func(_ *layers.Model, x variable) variable { return layers.Reshape(x, []int64{-1, 8}) }, "reshape2"},
		"flattened records that are put together again": {func(_ *layers.Model, x variable) variable {
			return layers.Reshape(layers.Square(layers.Reshape(x, []int64{-1, 2})), []int64{-1, 4})
		}, ""},
		"flattened records two at a time": {func(_ *layers.Model, x variable) variable {
			return layers.Reshape(layers.Square(layers.Reshape(x, []int64{-1, 2})), []int64{-1, 8})
		}, "reshape2"},
		"one row":    {func(_ *layers.Model, x variable) variable { return layers.Reshape(x, []int64{1, -1}) }, "reshape2"},
		"transposed": {func(_ *layers.Model, x variable) variable { return layers.Transpose(x, []int{1, 0}) }, ""},
		"transposed, and joined along the axis of the records": {func(_ *layers.Model, x variable) variable {
			y := layers.Transpose(x, []int{1, 0})
			return layers.Concat([]variable{y, y}, 1)
		}, "transpose2"},
		"joined along axis 0": {func(_ *layers.Model, x variable) variable { return layers.Concat([]variable{x, x}, 0) }, ""},
		"joined along axis 0 with more rows of a record": {func(_ *layers.Model, x variable) variable {
			return layers.Concat([]variable{layers.Split(x, 2, 1)[0], layers.Reshape(x, []int64{-1, 2})}, 0)
		}, "concat"},
		"joined along axis 0, two rows at a time": {func(_ *layers.Model, x variable) variable {
			return layers.Reshape(layers.Concat([]variable{x, x}, 0), []int64{-1, 8})
		}, "concat"},
		"joined along axis 0, and one matched with another": {func(_ *layers.Model, x variable) variable {
			y := layers.Concat([]variable{x, x}, 0)
			return product(y, y, layers.TransposeY())
		}, "matmul"},
		"heads along axis 0": {func(_ *layers.Model, x variable) variable {
			y := layers.Tanh(layers.Concat(layers.Split(x, 4, 1), 0))
			return layers.Concat(layers.Split(y, 2, 0), 1)
		}, ""},
		"heads along axis 0, cut within": {func(_ *layers.Model, x variable) variable {
			return layers.Split(layers.Concat(layers.Split(layers.Reshape(x, []int64{-1, 2}), 2, 1), 0), 4, 0)[1]
		}, "split"},
		"heads along axis 0 beside records": {func(_ *layers.Model, x variable) variable {
			return layers.Add(layers.Concat(layers.Split(x, 2, 1), 0), layers.Reshape(x, []int64{-1, 2}))
		}, "concat"},
		"heads along a new axis 0": {func(_ *layers.Model, x variable) variable {
			y := layers.Stack(layers.Split(layers.Reshape(x, []int64{-1, 2, 2}), 2, 2), 0)
			y = layers.MatMul(layers.Softmax(layers.MatMul(y, y, layers.TransposeY())), y)
			return layers.Squeeze(layers.Concat(layers.Split(y, 2, 0), -1), layers.Axes(0))
		}, ""},
		"heads along a new axis 0, softmax over records": {func(_ *layers.Model, x variable) variable {
			return layers.LogSoftmax(layers.Stack(layers.Split(x, 2, 1), 0), layers.Axis(-2))
		}, "stack"},
		"joined along axis 1": {func(_ *layers.Model, x variable) variable { return layers.Concat([]variable{x, x}, 1) }, ""},
		"parts of axis 1":     {func(_ *layers.Model, x variable) variable { return layers.Split(x, 2, 1)[1] }, ""},
		"sum over axis 1":     {func(_ *layers.Model, x variable) variable { return layers.ReduceSum(x, layers.Axes(-1)) }, ""},
		"sum over axis 0":     {func(_ *layers.Model, x variable) variable { return layers.ReduceSum(x, layers.Axes(0)) }, ""}, // trainers share it
		"mean over axis -2":   {func(_ *layers.Model, x variable) variable { return layers.ReduceMean(x, layers.Axes(-2)) }, ""},
		"products of rows":    {func(_ *layers.Model, x variable) variable { return product(x, x, layers.TransposeY()) }, "matmul"},
		"weights times rows": {func(m *layers.Model, x variable) variable {
			return product(m.Parameters()[0], x, layers.TransposeY())
		}, "matmul"},
		"rows times weights": {func(m *layers.Model, x variable) variable { return product(x, m.Parameters()[0]) }, ""},
		"matrices of a batch": {func(_ *layers.Model, x variable) variable {
			y := layers.Reshape(x, []int64{0, 2, 2})
			return product(y, y)
		}, ""},
		"divided by a sum": {func(_ *layers.Model, x variable) variable { return layers.Div(x, layers.ReduceSum(x)) }, "elementwise_div"},
		"less their mean":  {func(_ *layers.Model, x variable) variable { return layers.Sub(x, layers.Mean(x)) }, "elementwise_sub"},
		"times a number a row": {func(_ *layers.Model, x variable) variable {
			return layers.Mul(x, layers.ReduceSum(x, layers.Axes(1)), layers.Axis(0))
		}, ""},
		"log softmax, axis 0":    {func(_ *layers.Model, x variable) variable { return layers.LogSoftmax(x, layers.Axis(0)) }, "log_softmax"},
		"log softmax, axis 1":    {func(_ *layers.Model, x variable) variable { return layers.LogSoftmax(x) }, ""},
		"batch norm":             {func(_ *layers.Model, x variable) variable { return layers.BatchNorm(x) }, ""}, // its state merges
		"only fetched, not used": {func(_ *layers.Model, x variable) variable { layers.Transpose(x, []int{1, 0}); return x }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel()
			x := layers.FC(layers.Data(m, "x", layers.Dims(4)), 4) // weights [4, 4]
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.Square(test.rows(m, x))))
			p, err := m.Program()
			if err != nil {
				t.Fatal(err)
			}
			_, err = ops.GradientMerge(p)
			var f *fault.Fault
			switch refused := errors.As(err, &f); {
			case refused != (test.mixes != ""):
				t.Errorf("got %v, want a refusal of %q", err, test.mixes)
			case refused && (f.Kind != fault.Unsupported || f.Op != test.mixes || f.Line == "" || f.Hint == ""):
				t.Errorf("got %v, want %s unsupported, with its line and a hint", err, test.mixes)
			}
		})
	}
}
