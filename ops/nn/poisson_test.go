package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var eventCases = []Case{
	{Type: "poisson", Inputs: slots{"X": One(Floats(dims{2, 3}, 0, 1, 2.5, 9, 40, 1000))}, NoDifferences: true, NoFloat32: true},
	{Type: "dirichlet", Inputs: slots{"Alpha": One(Floats(dims{3, 2}, 1, 2, 0.01, 0.02, 300, 1e-12))}, NoFloat32: true},
	{Type: "exponential", Attrs: attrs{"lambda": float32(2)}, Inputs: slots{"X": One(Spread(1, 2, 3))}},
	{Type: "uniform_random_inplace", Attrs: attrs{"min": float32(2), "max": float32(3)}, Inputs: slots{"X": One(Spread(1, 2, 3))}},
	{Type: "gaussian_random_inplace", Attrs: attrs{"mean": float32(2), "std": float32(0)}, Inputs: slots{"X": One(Spread(1, 2, 2))}, Want: slots{"Out": One(Floats(dims{2, 2}, 2, 2, 2, 2))}},
	{Type: "rrelu", Inputs: slots{"X": One(Spread(1, 2, 3))}},
	{Type: "rrelu", Name: "in a test", Attrs: attrs{"is_test": true, "lower": float32(0.25), "upper": float32(0.5)}, Inputs: slots{"X": One(Floats(dims{3}, -2, 0, 3))},
		Want: slots{"Out": One(Floats(dims{3}, -0.75, 0, 3)), "Noise": One(Floats(dims{3}, 0.375, 1, 1))}, NoDifferences: true},
	{Type: "dirichlet", Name: "one", Inputs: slots{"Alpha": One(Floats(dims{1}, 3))}, Want: slots{"Out": One(Floats(dims{1}, 1))}},
}

// draw runs an op on n rows of values, from row first of a batch.
func draw(t *testing.T, op, slot string, row []float64, first, n int64, step ops.Step) []float64 {
	t.Helper()
	return drawn(t, op, slot, nil, row, first, n, step)
}

// drawn is draw for an op with attributes.
func drawn(t *testing.T, op, slot string, a attrs, row []float64, first, n int64, step ops.Step) []float64 {
	t.Helper()
	x, err := tensor.FromSlice(slices.Repeat(row, int(n)), n, int64(len(row)))
	if err != nil {
		t.Fatal(err)
	}
	step.RowOffset, step.Rows = first, n
	m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, step)
	if err := m.Run(t.Context(), &program.Op{Type: op, Inputs: map[string][]string{slot: {"x"}}, Outputs: map[string][]string{"Out": {"out"}}, Attrs: a}); err != nil {
		t.Fatal(err)
	}
	return m.Vars["out"].Float64s()
}

// moments returns the mean and the variance of a column.
func moments(values []float64, width, k int) (mean, variance float64) {
	n := 0.0
	for i := k; i < len(values); i += width {
		mean, variance, n = mean+values[i], variance+values[i]*values[i], n+1
	}
	mean /= n
	return mean, variance/n - mean*mean
}

func TestEventsHaveTheirDistribution(t *testing.T) {
	const n = 8000
	rates := []float64{0, 0.5, 7, 10, 60, 5000}
	whole := draw(t, "poisson", "X", rates, 0, n, ops.Step{Round: 3})
	for k, rate := range rates { // five standard deviations of both
		mean, variance := moments(whole, len(rates), k)
		if math.Abs(mean-rate) > 5*math.Sqrt(rate/n) || math.Abs(variance-rate) > 5*math.Sqrt((rate+2*rate*rate)/n) {
			t.Errorf("rate %v: mean %v and variance %v", rate, mean, variance)
		}
	}
	if i := slices.IndexFunc(whole, func(v float64) bool { return v < 0 || v != math.Trunc(v) }); i >= 0 {
		t.Errorf("%v events", whole[i])
	}
	if part := draw(t, "poisson", "X", rates, 100, 50, ops.Step{Round: 3}); !slices.Equal(part, whole[100*len(rates):150*len(rates)]) {
		t.Error("a part of the batch draws something else")
	}
	if next := draw(t, "poisson", "X", rates, 0, 50, ops.Step{Round: 4}); slices.Equal(next, whole[:len(next)]) {
		t.Error("the next step draws the same")
	}
}

func TestDrawnElementsHaveTheirDistribution(t *testing.T) {
	const n = 8000
	for _, c := range []struct {
		op             string
		attrs          attrs
		mean, variance float64
	}{
		{"exponential", attrs{"lambda": float32(0.5)}, 2, 4},
		{"uniform_random_inplace", attrs{"min": float32(1), "max": float32(4)}, 2.5, 0.75},
		{"gaussian_random_inplace", attrs{"mean": float32(-1), "std": float32(2), "seed": int32(7)}, -1, 4},
		{"rrelu", attrs{"lower": float32(0), "upper": float32(3)}, -1.5, 0.75},
	} {
		whole := drawn(t, c.op, "X", c.attrs, []float64{-1, -1}, 0, n, ops.Step{Round: 3})
		mean, variance := moments(whole, 1, 0)
		if math.Abs(mean-c.mean) > 5*math.Sqrt(c.variance/(2*n)) || math.Abs(variance-c.variance) > 0.1*c.variance {
			t.Errorf("%s: mean %v and variance %v, want %v and %v", c.op, mean, variance, c.mean, c.variance)
		}
		if part := drawn(t, c.op, "X", c.attrs, []float64{-1, -1}, 100, 50, ops.Step{Round: 3}); !slices.Equal(part, whole[200:300]) {
			t.Errorf("%s: a part of the batch draws something else", c.op)
		}
	}
}

func TestProbabilitiesHaveTheirDistribution(t *testing.T) {
	const n = 8000
	weights := []float64{0.3, 1, 2.7}
	whole := draw(t, "dirichlet", "Alpha", weights, 0, n, ops.Step{Round: 3})
	for k, weight := range weights {
		const total = 4
		mean, variance := moments(whole, len(weights), k)
		share := weight / total
		if want := share * (1 - share) / (total + 1); math.Abs(mean-share) > 5*math.Sqrt(want/n) || math.Abs(variance-want) > 0.1*want {
			t.Errorf("weight %v: mean %v and variance %v, want %v and %v", weight, mean, variance, share, want)
		}
	}
	for row := range slices.Chunk(whole, len(weights)) {
		if sum := row[0] + row[1] + row[2]; math.Abs(sum-1) > 1e-12 {
			t.Fatalf("%v add up to %v", row, sum)
		}
	}
	if part := draw(t, "dirichlet", "Alpha", weights, 100, 50, ops.Step{Round: 3}); !slices.Equal(part, whole[300:450]) {
		t.Error("a part of the batch draws something else")
	}
}

func TestRatesAndWeightsThatAreNone(t *testing.T) {
	for _, c := range []Case{
		{Type: "poisson", Inputs: slots{"X": One(Floats(dims{2}, 1, -1))}},
		{Type: "poisson", Inputs: slots{"X": One(Floats(dims{1}, math.Inf(1)))}},
		{Type: "poisson", Inputs: slots{"X": One(Floats(dims{1}, math.NaN()))}},
		{Type: "rrelu", Attrs: attrs{"lower": float32(1), "upper": float32(0)}, Inputs: slots{"X": One(Floats(dims{1}, 1))}},
		{Type: "exponential", Attrs: attrs{"lambda": float32(0)}, Inputs: slots{"X": One(Floats(dims{1}, 1))}},
		{Type: "uniform_random_inplace", Attrs: attrs{"min": float32(1), "max": float32(0)}, Inputs: slots{"X": One(Floats(dims{1}, 1))}},
		{Type: "gaussian_random_inplace", Attrs: attrs{"std": float32(math.Inf(1))}, Inputs: slots{"X": One(Floats(dims{1}, 1))}},
		{Type: "dirichlet", Inputs: slots{"Alpha": One(Floats(dims{2}, 1, 0))}},
		{Type: "dirichlet", Inputs: slots{"Alpha": One(Floats(dims{2}, 1, math.Inf(1)))}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
