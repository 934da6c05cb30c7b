package optim

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// accumulate runs average_accumulates on a parameter [2] for each of the values, which both elements have in turn.
func accumulate(t *testing.T, attrs map[string]program.Attr, values []float64) (sums [3]float64, counters [3]int64) {
	t.Helper()
	def, _ := ops.Lookup("average_accumulates")
	op := &program.Op{Type: def.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: attrs}
	in, out := map[string][]*tensor.Tensor{}, map[string][]*tensor.Tensor{}
	for _, slot := range def.Inputs {
		dtype, n := tensor.Float64, int64(2)
		if slices.ContainsFunc(averageCounters, func(s [2]string) bool { return s[0] == slot.Name }) {
			dtype, n = tensor.Int64, 1
		}
		x, err := tensor.New(dtype, n)
		if err != nil {
			t.Fatal(err)
		}
		in[slot.Name] = []*tensor.Tensor{x}
		op.Inputs[slot.Name] = []string{slot.Name}
	}
	for to, from := range def.InPlace {
		out[to], op.Outputs[to] = in[from], []string{from}
	}
	if _, err := ops.Infer(op, func(name string) (ops.Meta, bool) { return ops.MetaOfValue(in[name][0]), true }); err != nil {
		t.Fatal(err)
	}
	run, err := def.Bind(ops.NewBinding(op, def, &ops.Env{Step: &ops.Step{}}, in, out, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		in["param"][0].Float64s()[0], in["param"][0].Float64s()[1] = v, v
		if err := run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sums {
		sums[i], counters[i] = in[averageSums[i][0]][0].Float64s()[1], in[averageCounters[i][0]][0].Int64s()[0]
	}
	return sums, counters
}

func TestAverageAccumulates(t *testing.T) {
	window := func(share float32, least, most int64) map[string]program.Attr {
		return map[string]program.Attr{"average_window": share, "min_average_window": least, "max_average_window": most}
	}
	ones := func(n int) []float64 { return slices.Repeat([]float64{1}, n) }
	for name, c := range map[string]struct {
		attrs    map[string]program.Attr
		values   []float64
		sums     [3]float64
		counters [3]int64
	}{
		"the window is open":      {window(1, 3, 10), []float64{1, 2}, [3]float64{3, 0, 0}, [3]int64{2, 0, 2}},
		"it closes":               {window(1, 3, 10), []float64{1, 2, 4}, [3]float64{0, 0, 7}, [3]int64{0, 3, 3}},
		"the next one begins":     {window(1, 3, 10), []float64{1, 2, 4, 8}, [3]float64{8, 0, 7}, [3]int64{1, 3, 4}},
		"it is a share of steps":  {window(0.5, 1, 10), []float64{1, 2, 4, 8}, [3]float64{8, 0, 4}, [3]int64{1, 1, 4}},
		"it is bounded":           {window(1, 1, 2), []float64{1, 2, 4, 8}, [3]float64{8, 0, 6}, [3]int64{1, 2, 4}},
		"sums move to the second": {window(1, 100000, 100000), ones(mostAccumulated + 1), [3]float64{1, mostAccumulated, 0}, [3]int64{mostAccumulated + 1, 0, mostAccumulated + 1}},
	} {
		sums, counters := accumulate(t, c.attrs, c.values)
		if sums != c.sums || counters != c.counters {
			t.Errorf("%s: sums %v and counters %v, want %v and %v", name, sums, counters, c.sums, c.counters)
		}
	}
}
