package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSequenceSum(t *testing.T) {
	x, out, dx := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 2), make([]float32, 6)
	SequenceSum(out, x, 2, 0.5)
	SequenceSumGrad(dx, []float32{4, 6}, 2, 0.5)
	if !slices.Equal(out, []float32{4.5, 6}) || !slices.Equal(dx, []float32{2, 3, 2, 3, 2, 3}) {
		t.Errorf("half of the sum is %v, its gradient %v", out, dx)
	}
}

func TestSequenceMax(t *testing.T) {
	nan := math.NaN()
	x := []float64{
		1, nan, -1, 2,
		3, 5, -1, nan,
		3, 9, -2, nan,
	}
	out, index, dx := make([]float64, 4), make([]int32, 4), make([]float64, len(x))
	SequenceMax(out, index, x, 4, 10)
	if !slices.Equal(index, []int32{11, 10, 10, 11}) || out[0] != 3 || out[1] == out[1] || out[2] != -1 || out[3] == out[3] {
		t.Errorf("largest %v in rows %v", out, index)
	}
	SequenceMaxGrad(dx, []float64{1, 2, 3, 4}, index, 4, 10)
	if !slices.Equal(dx, []float64{0, 2, 3, 0, 1, 0, 0, 4, 0, 0, 0, 0}) {
		t.Errorf("gradient %v", dx)
	}
}

func TestSequencePoolAllocatesNothing(t *testing.T) {
	x, out, index := make([]float32, 300), make([]float32, 30), make([]int32, 30)
	if n := testing.AllocsPerRun(5, func() {
		SequenceSum(out, x, 30, 2)
		SequenceMax(out, index, x, 30, 0)
		SequenceMaxGrad(x, out, index, 30, 0)
		SequenceSumGrad(x, out, 30, 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLSTMStep compares a step in float32 with its formula in float64, element by element.
func TestLSTMStep(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t, "width")
		peepholes, begins := rapid.Bool().Draw(t, "peepholes"), rapid.Bool().Draw(t, "begins")
		draw := func(n int) []float32 {
			return rapid.SliceOfN(rapid.Float32Range(-4, 4), n, n).Draw(t, "values")
		}
		weight, l := make([]float32, 3*d), NewLSTM[float32](d, "sigmoid", "tanh", "tanh", nil)
		if peepholes {
			weight = draw(3 * d)
			l = NewLSTM(d, "sigmoid", "tanh", "tanh", weight)
		}
		previous := draw(d)
		row, bias, sums := draw(4*d), draw(4*d), draw(4*d)
		kept := make([]float64, 4*d)
		for i := range kept {
			kept[i] = float64(row[i]) + float64(bias[i]) + float64(sums[i])
		}
		gates, cell, active, hidden := make([]float32, 4*d), make([]float32, d), make([]float32, d), make([]float32, d)
		if begins {
			l.Forward(gates, cell, active, hidden, nil, row, bias, sums)
			clear(previous)
		} else {
			l.Forward(gates, cell, active, hidden, previous, row, bias, sums)
		}
		for j := range d {
			before := float64(previous[j])
			candidate := math.Tanh(kept[j])
			input := sigmoid(kept[d+j] + float64(weight[j])*before)
			forget := sigmoid(kept[2*d+j] + float64(weight[d+j])*before)
			c := candidate*input + before*forget
			output := sigmoid(kept[3*d+j] + float64(weight[2*d+j])*c)
			for what, pair := range map[string][2]float64{
				"candidate": {float64(gates[j]), candidate}, "input gate": {float64(gates[d+j]), input}, "forget gate": {float64(gates[2*d+j]), forget},
				"output gate": {float64(gates[3*d+j]), output}, "cell": {float64(cell[j]), c}, "active": {float64(active[j]), math.Tanh(c)},
				"hidden": {float64(hidden[j]), output * math.Tanh(c)}} {
				if math.Abs(pair[0]-pair[1]) > 1e-5 {
					t.Fatalf("%s %d is %v, want %v", what, j, pair[0], pair[1])
				}
			}
		}
	})
}

func TestLSTMAllocatesNothing(t *testing.T) {
	wide, narrow := make([][]float32, 5), make([][]float32, 6)
	for i := range wide {
		wide[i] = make([]float32, 32)
	}
	for i := range narrow {
		narrow[i] = make([]float32, 8)
	}
	l, usual := NewLSTM(8, "sigmoid", "tanh", "relu", make([]float32, 24)), NewLSTM[float32](8, "sigmoid", "tanh", "tanh", nil)
	if n := testing.AllocsPerRun(5, func() {
		l.Forward(wide[0], narrow[0], narrow[1], narrow[2], narrow[3], wide[3], wide[4], wide[1])
		usual.Forward(wide[0], narrow[0], narrow[1], narrow[2], narrow[3], wide[0], wide[4], wide[1])
		usual.Backward(wide[2], narrow[4], narrow[2], wide[0], narrow[0], narrow[1], narrow[3], narrow[5])
		l.Backward(wide[2], narrow[4], narrow[2], wide[0], narrow[0], narrow[1], narrow[3], narrow[5])
		l.PeepholeGrad(wide[1][:24], wide[2], narrow[0], narrow[3])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A step in one loop has the bits of the loops over single arrays, with gates in the memory of their row, and touches what it writes only.
func TestLSTMStepInOneLoop(t *testing.T) {
	g := newGuards(t, 14)
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			d := 8 * rapid.IntRange(1, 9).Draw(t, "vectors")
			whole := NewLSTM[float32](d, "sigmoid", "tanh", "tanh", nil)
			single := whole
			single.usual = false
			seed := rapid.Int64().Draw(t, "seed")
			run := func(l LSTM[float32]) [][]float32 {
				next := -1
				draw := func(n int) []float32 {
					next++
					return guarded(g, next, noise[float32](seed+int64(next), n*d))
				}
				gates, cell, active, hidden, previous, bias, sums := draw(4), draw(1), draw(1), draw(1), draw(1), draw(4), draw(4)
				l.Forward(gates, cell, active, hidden, previous, gates, bias, sums)
				dgates, dcell, dhidden, work := draw(4), draw(1), draw(1), draw(1)
				l.Backward(dgates, dcell, dhidden, gates, cell, active, previous, work)
				var results [][]float32
				for _, values := range [][]float32{gates, cell, active, hidden, previous, bias, dgates, dcell, dhidden} {
					results = append(results, slices.Clone(values))
				}
				return results
			}
			want := run(single)
			for i, got := range run(whole) {
				sameBits(t, got, want[i])
			}
		})
	})
}
