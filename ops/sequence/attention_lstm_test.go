package sequence_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

// attentionCase reads sequences of 3, 0 and 2 rows of width 2 with cells of width 3.
func attentionCase(name string, a attrs) Case {
	return Case{Type: "attention_lstm", Name: name, Attrs: a, Inputs: slots{"X": One(Sequences(Spread(1, 5, 2), 3, 0, 2)), "C0": One(Spread(2, 3, 3)), "H0": One(Spread(3, 3, 3)),
		"AttentionWeight": One(Spread(4, 5, 1)), "AttentionBias": One(Floats(dims{1, 1}, 0.3)), "AttentionScalar": One(Floats(dims{1, 1}, 1.5)), "AttentionScalarBias": One(Floats(dims{1, 1}, 0.1)),
		"LSTMWeight": One(Spread(5, 5, 12)), "LSTMBias": One(Spread(6, 1, 12))}}
}

func attentionCases() []Case {
	// Both rows count alike, so each step gets their mean, 2. All gates are 1/2, and the candidate is tanh(2/2).
	g := math.Tanh(1)
	c1 := 2./2 + g/2
	c2 := c1/2 + g/2
	hand := Case{Type: "attention_lstm", Name: "by hand", Inputs: slots{"X": One(Sequences(Floats(dims{2, 1}, 1, 3), 2)), "C0": One(Floats(dims{1, 1}, 2)), "AttentionWeight": One(Floats(dims{2, 1}, 0, 0)),
		"LSTMWeight": One(Floats(dims{2, 4}, 0, 0, 0, 0, 0, 0, 0, 0.5)), "LSTMBias": One(Floats(dims{1, 4}, 0, 0, 0, 0))},
		Want: slots{"Cell": One(Floats(dims{2, 1}, c1, c2)), "Hidden": One(Floats(dims{2, 1}, math.Tanh(c1)/2, math.Tanh(c2)/2)), "AttentionFCOut": One(Floats(dims{2, 1}, 0.5, 0.5))}}
	// A row with e = ln 3 counts three times as much as one with e = 0, to which relu takes -1.
	counts := Case{Type: "attention_lstm", Name: "counts", Inputs: slots{"X": One(Sequences(Floats(dims{2, 1}, 1, -1), 2)), "C0": One(Floats(dims{1, 1}, 0)), "AttentionWeight": One(Floats(dims{2, 1}, math.Log(3), 0)),
		"LSTMWeight": One(Floats(dims{2, 4}, 0, 0, 0, 0, 0, 0, 0, 1)), "LSTMBias": One(Floats(dims{1, 4}, 0, 0, 0, 0))}, Attrs: attrs{"candidate_activation": "identity"},
		Want: slots{"AttentionFCOut": One(Floats(dims{2, 1}, 0.75, 0.25)), "Cell": One(Floats(dims{2, 1}, 0.25, 0.375))}}
	return []Case{hand, counts, attentionCase("all slots", nil), attentionCase("functions", attrs{"gate_activation": "identity", "cell_activation": "relu", "candidate_activation": "sigmoid"})}
}

func TestAttentionThatDoesNotFit(t *testing.T) {
	narrow, few, scale, name := attentionCase("narrow", nil), attentionCase("few", nil), attentionCase("scale", nil), attentionCase("name", attrs{"gate_activation": "gelu"})
	narrow.Inputs["LSTMWeight"] = One(Spread(5, 5, 11))
	few.Inputs["C0"] = One(Spread(2, 2, 3))
	delete(scale.Inputs, "AttentionScalar")
	for _, c := range []struct {
		Case
		want fault.Kind
	}{{narrow, fault.ShapeMismatch}, {few, fault.ShapeMismatch}, {scale, fault.ShapeMismatch}, {name, fault.InvalidArgument}} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
