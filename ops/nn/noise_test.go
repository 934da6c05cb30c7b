package nn_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var noiseCases = []Case{
	{Type: "uniform_random_batch_size_like", Attrs: attrs{"shape": []int64{-1, 2}, "dtype": int32(tensor.Float64), "min": float32(3), "max": float32(3)},
		Inputs: slots{"Input": One(fourNumbers)}, Want: slots{"Out": One(Floats(dims{4, 2}, 3, 3, 3, 3, 3, 3, 3, 3))}},
	{Type: "gaussian_random_batch_size_like", Attrs: attrs{"shape": []int64{2, -1}, "output_dim_idx": int32(1), "dtype": int32(tensor.Float64), "mean": float32(-1), "std": float32(0)},
		Inputs: slots{"Input": One(fourNumbers)}, Want: slots{"Out": One(Floats(dims{2, 4}, -1, -1, -1, -1, -1, -1, -1, -1))}},
	{Type: "seed", Attrs: attrs{"seed": int32(7)}, Want: slots{"Out": One(Int32s(dims{1}, 7))}},
	{Type: "dropout", Name: "seed from a tensor", Inputs: slots{"X": One(fourNumbers), "Seed": One(Int32s(dims{1}, 7))}, Loss: []string{"Out"}},
}

// noise draws numbers of a distribution for a batch of some rows.
func noise(t *testing.T, opType, out string, rows int64, step ops.Step) []float32 {
	t.Helper()
	x, err := tensor.New(tensor.Float32, rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, step)
	op := &program.Op{Type: opType, Inputs: map[string][]string{"Input": {"x"}}, Outputs: map[string][]string{"Out": {out}}, Attrs: attrs{"shape": []int64{-1, 500}}}
	if err := m.Run(context.Background(), op); err != nil {
		t.Fatal(err)
	}
	return m.Vars[out].Float32s()
}

func TestNoiseIsThatOfTheWholeBatchAndNewInEveryStep(t *testing.T) {
	for opType, std := range map[string]float64{"uniform_random_batch_size_like": 1 / math.Sqrt(3), "gaussian_random_batch_size_like": 1} {
		whole := noise(t, opType, "z", 12, ops.Step{Round: 3, Rows: 12})
		sum, squares := 0.0, 0.0
		for _, v := range whole {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(len(whole)) // the seed is fixed, so five standard errors hold always or never
		if mean := sum / n; math.Abs(mean) > 5*std/math.Sqrt(n) || math.Abs(math.Sqrt(squares/n)/std-1) > 5/math.Sqrt(n) {
			t.Errorf("%s: mean %v, deviation %v, want 0 and %v", opType, mean, math.Sqrt(squares/n), std)
		}
		if part := noise(t, opType, "z", 4, ops.Step{Round: 3, RowOffset: 7, Rows: 4}); !slices.Equal(part, whole[7*500:11*500]) {
			t.Errorf("%s: rows 7 to 10 differ from those of the whole", opType)
		}
		for name, other := range map[string][]float32{"step": noise(t, opType, "z", 12, ops.Step{Round: 4, Rows: 12}), "variable": noise(t, opType, "y", 12, ops.Step{Round: 3, Rows: 12})} {
			if slices.Equal(other, whole) {
				t.Errorf("%s: another %s has the same numbers", opType, name)
			}
		}
	}
}

func TestNoiseRefusesWhatIsNoDistribution(t *testing.T) {
	for _, c := range []Case{
		{Type: "uniform_random_batch_size_like", Attrs: attrs{"shape": []int64{-1}, "min": float32(2)}, Inputs: slots{"Input": One(fourNumbers)}},
		{Type: "gaussian_random_batch_size_like", Attrs: attrs{"shape": []int64{-1}, "std": float32(-1)}, Inputs: slots{"Input": One(fourNumbers)}},
		{Type: "gaussian_random_batch_size_like", Attrs: attrs{"shape": []int64{-1}, "mean": float32(math.NaN())}, Inputs: slots{"Input": One(fourNumbers)}},
		{Type: "gaussian_random_batch_size_like", Attrs: attrs{"shape": []int64{-1}, "output_dim_idx": int32(1)}, Inputs: slots{"Input": One(fourNumbers)}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
