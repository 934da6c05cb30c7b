package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestLSTMStep compares a step in float32 with its formula in float64, element by element.
func TestLSTMStep(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t, "width")
		peepholes, begins := rapid.Bool().Draw(t, "peepholes"), rapid.Bool().Draw(t, "begins")
		known := Activations[float32]()
		l := LSTM[float32]{Width: d, Gate: known["sigmoid"], Cell: known["tanh"], Candidate: known["tanh"]}
		draw := func(n int) []float32 {
			return rapid.SliceOfN(rapid.Float32Range(-4, 4), n, n).Draw(t, "values")
		}
		weight := make([]float32, 3*d)
		if peepholes {
			weight = draw(3 * d)
			l.Peepholes = weight
		}
		previous := draw(d)
		sums := draw(4 * d)
		kept := append([]float32(nil), sums...)
		gates, cell, active, hidden := make([]float32, 4*d), make([]float32, d), make([]float32, d), make([]float32, d)
		if begins {
			l.Forward(gates, cell, active, hidden, nil, sums)
			clear(previous)
		} else {
			l.Forward(gates, cell, active, hidden, previous, sums)
		}
		for j := range d {
			before := float64(previous[j])
			candidate := math.Tanh(float64(kept[j]))
			input := sigmoid(float64(kept[d+j]) + float64(weight[j])*before)
			forget := sigmoid(float64(kept[2*d+j]) + float64(weight[d+j])*before)
			c := candidate*input + before*forget
			output := sigmoid(float64(kept[3*d+j]) + float64(weight[2*d+j])*c)
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
	known := Activations[float32]()
	l := LSTM[float32]{Width: 8, Gate: known["sigmoid"], Cell: known["tanh"], Candidate: known["relu"], Peepholes: make([]float32, 24)}
	wide, narrow := make([][]float32, 3), make([][]float32, 6)
	for i := range wide {
		wide[i] = make([]float32, 32)
	}
	for i := range narrow {
		narrow[i] = make([]float32, 8)
	}
	if n := testing.AllocsPerRun(5, func() {
		l.Forward(wide[0], narrow[0], narrow[1], narrow[2], narrow[3], wide[1])
		l.Backward(wide[2], narrow[4], narrow[2], wide[0], narrow[0], narrow[1], narrow[3], narrow[5])
		l.PeepholeGrad(wide[1][:24], wide[2], narrow[0], narrow[3])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
