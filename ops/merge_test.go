package ops_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
)

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
		"mean and sum": {func(_ *layers.Model, cost variable) variable {
			return layers.Add(layers.Mean(cost), layers.ReduceSum(cost))
		}, 0, fault.Unsupported},
		"sum and penalty": {func(m *layers.Model, cost variable) variable { return layers.Add(layers.ReduceSum(cost), penalty(m)) }, 0,
			fault.Unsupported},
		"root of a mean": {func(_ *layers.Model, cost variable) variable { return layers.Sqrt(layers.Mean(cost)) }, 0, fault.Unsupported},
		"product of two means": {func(_ *layers.Model, cost variable) variable { return layers.Mul(layers.Mean(cost), layers.Mean(cost)) }, 0,
			fault.Unsupported},
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
