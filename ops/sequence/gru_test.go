package sequence_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func gruCases() []gradcheck.Case {
	const width = 3
	inputs := func(more ...string) slots {
		in := slots{
			"Input":  gradcheck.One(ragged(1, 3*width, lengths...)),
			"Weight": gradcheck.One(gradcheck.Spread(2, width, 3*width)),
		}
		for _, slot := range more {
			switch slot {
			case "Bias":
				in[slot] = gradcheck.One(gradcheck.Spread(3, 1, 3*width))
			case "H0":
				in[slot] = gradcheck.One(gradcheck.Spread(4, int64(len(lengths)), width))
			}
		}
		return in
	}
	return []gradcheck.Case{
		{Name: "usual", Type: "gru", Inputs: inputs("Bias")},
		{Name: "no bias", Type: "gru", Inputs: inputs()},
		{Name: "reverse", Type: "gru", Inputs: inputs("Bias"), Attrs: attrs{"is_reverse": true}},
		{Name: "initial state", Type: "gru", Inputs: inputs("Bias", "H0")},
		{Name: "initial state, reverse, origin", Type: "gru", Inputs: inputs("H0"), Attrs: attrs{"is_reverse": true, "origin_mode": true}},
		{Name: "other functions", Type: "gru", Inputs: inputs("Bias", "H0"), Attrs: attrs{"gate_activation": "tanh", "activation": "identity"}},
		{Name: "relu", Type: "gru", Inputs: inputs("Bias"), Attrs: attrs{"activation": "relu"}},
		{Name: "no rows", Type: "gru", Inputs: slots{
			"Input":  gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{0, 3}))),
			"Weight": gradcheck.One(gradcheck.Spread(2, 1, 3)),
		}},
	}
}

func unitCases() []gradcheck.Case {
	gru := slots{
		"Input":      gradcheck.One(gradcheck.Spread(1, 4, 9)),
		"HiddenPrev": gradcheck.One(gradcheck.Spread(2, 4, 3)),
		"Weight":     gradcheck.One(gradcheck.Spread(3, 3, 9)),
	}
	biased := slots{"Input": gru["Input"], "HiddenPrev": gru["HiddenPrev"], "Weight": gru["Weight"], "Bias": gradcheck.One(gradcheck.Spread(4, 1, 9))}
	lstm := slots{"X": gradcheck.One(gradcheck.Spread(1, 3, 8)), "C_prev": gradcheck.One(gradcheck.Spread(2, 3, 2))}
	return []gradcheck.Case{
		{Name: "usual", Type: "gru_unit", Inputs: biased},
		{Name: "no bias, origin", Type: "gru_unit", Inputs: gru, Attrs: attrs{"origin_mode": true}},
		{Name: "other functions", Type: "gru_unit", Inputs: biased, Attrs: attrs{"activation": int32(0), "gate_activation": int32(2)}},
		{Name: "by hand", Type: "lstm_unit", Attrs: attrs{"forget_bias": float32(1)},
			Inputs: slots{"X": gradcheck.One(gradcheck.Floats(dims{1, 4}, 0, -1, 0, 0.5)), "C_prev": gradcheck.One(gradcheck.Floats(dims{1, 1}, 3))},
			Want: slots{"C": gradcheck.One(gradcheck.Floats(dims{1, 1}, 1.5+0.5*math.Tanh(0.5))),
				"H": gradcheck.One(gradcheck.Floats(dims{1, 1}, 0.5*math.Tanh(1.5+0.5*math.Tanh(0.5))))}},
		{Name: "rows", Type: "lstm_unit", Inputs: lstm},
		{Name: "only C", Type: "lstm_unit", Inputs: lstm, Loss: []string{"C"}},
		{Name: "only H", Type: "lstm_unit", Inputs: lstm, Loss: []string{"H"}, Attrs: attrs{"forget_bias": float32(0.5)}},
	}
}

// plainGRU is the formula of gru for one sequence, element by element.
func plainGRU(x, h0, weight, bias []float64, width int, reverse, origin bool) []float64 {
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	steps := len(x) / (3 * width)
	hidden, h := make([]float64, steps*width), h0
	for step := range steps {
		at := step
		if reverse {
			at = steps - 1 - step
		}
		part := func(which, j int) float64 { return x[at*3*width+which*width+j] + bias[which*width+j] }
		u, r := make([]float64, width), make([]float64, width)
		for j := range width {
			u[j], r[j] = part(0, j), part(1, j)
			for k := range width {
				u[j] += h[k] * weight[k*2*width+j]
				r[j] += h[k] * weight[k*2*width+width+j]
			}
			u[j], r[j] = sigmoid(u[j]), sigmoid(r[j])
		}
		next := hidden[at*width : (at+1)*width]
		for j := range width {
			c := part(2, j)
			for k := range width {
				c += r[k] * h[k] * weight[2*width*width+k*width+j]
			}
			c = math.Tanh(c)
			if origin {
				next[j] = u[j]*h[j] + (1-u[j])*c
			} else {
				next[j] = (1-u[j])*h[j] + u[j]*c
			}
		}
		h = next
	}
	return hidden
}

func TestGRUIsTheFormula(t *testing.T) {
	const width = 5
	for _, reverse := range []bool{false, true} {
		for _, origin := range []bool{false, true} {
			x, weight, bias := ragged(1, 3*width, lengths...), gradcheck.Spread(2, width, 3*width), gradcheck.Spread(3, 1, 3*width)
			h0 := gradcheck.Spread(4, int64(len(lengths)), width)
			m := gradcheck.NewInterpreter(map[string]*tensor.Tensor{"x": x, "w": weight, "b": bias, "h0": h0}, ops.Step{})
			op := &program.Op{Type: "gru", Attrs: attrs{"is_reverse": reverse, "origin_mode": origin},
				Inputs:  map[string][]string{"Input": {"x"}, "Weight": {"w"}, "Bias": {"b"}, "H0": {"h0"}},
				Outputs: map[string][]string{"Hidden": {"h"}, "BatchHidden": {"same"}, "BatchGate": {"g"}, "BatchResetHiddenPrev": {"r"}}}
			if err := m.Run(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			var want []float64
			at := int64(0)
			for i, n := range lengths {
				want = append(want, plainGRU(x.Float64s()[at*3*width:(at+n)*3*width], h0.Float64s()[i*width:(i+1)*width], weight.Float64s(), bias.Float64s(),
					width, reverse, origin)...)
				at += n
			}
			compare(t, "Hidden", m.Vars["h"].Float64s(), want)
			compare(t, "BatchHidden", m.Vars["same"].Float64s(), want)
		}
	}
}

// TestGRUUnitIsAStepOfGRU compares gru_unit with gru over sequences of one row.
func TestGRUUnitIsAStepOfGRU(t *testing.T) {
	const width = 4
	m := gradcheck.NewInterpreter(map[string]*tensor.Tensor{"x": ragged(1, 3*width, 1, 1, 1), "w": gradcheck.Spread(2, width, 3*width),
		"b": gradcheck.Spread(3, 1, 3*width), "h0": gradcheck.Spread(4, 3, width)}, ops.Step{})
	if err := m.Run(t.Context(),
		&program.Op{Type: "gru", Inputs: map[string][]string{"Input": {"x"}, "Weight": {"w"}, "Bias": {"b"}, "H0": {"h0"}},
			Outputs: map[string][]string{"Hidden": {"h"}}},
		&program.Op{Type: "gru_unit", Inputs: map[string][]string{"Input": {"x"}, "Weight": {"w"}, "Bias": {"b"}, "HiddenPrev": {"h0"}},
			Outputs: map[string][]string{"Hidden": {"unit"}}}); err != nil {
		t.Fatal(err)
	}
	compare(t, "Hidden", m.Vars["unit"].Float64s(), m.Vars["h"].Float64s())
}
