package nn_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// networkCase reads 3 steps of 2 sequences of width 2 with states of width 2.
func networkCase(name, mode string, layers, directions int, lengths ...int32) Case {
	gates := map[string]int64{"LSTM": 8, "GRU": 6, "RNN_TANH": 2, "RNN_RELU": 2}[mode]
	c := Case{Type: "rnn", Name: mode + " " + name, Inputs: slots{"Input": One(Spread(1, 3, 2, 2))}, Outputs: map[string]int{"DropoutState": 0},
		Attrs: attrs{"mode": mode, "hidden_size": int32(2), "input_size": int32(2), "num_layers": int32(layers), "is_bidirec": directions == 2}}
	all := layers * directions
	c.Inputs["PreState"] = One(Spread(2, int64(all), 2, 2))
	if mode == "LSTM" {
		c.Inputs["PreState"] = append(c.Inputs["PreState"], Spread(3, int64(all), 2, 2))
	}
	c.Outputs["State"] = len(c.Inputs["PreState"])
	for i := range all {
		width := int64(2)
		if i >= directions {
			width = int64(2 * directions)
		}
		c.Inputs["WeightList"] = append(c.Inputs["WeightList"], Spread(3+i, gates, width), Spread(4+i, gates, 2))
	}
	for i := range 2 * all {
		c.Inputs["WeightList"] = append(c.Inputs["WeightList"], Spread(5+i, gates))
	}
	if len(lengths) > 0 {
		c.Inputs["SequenceLength"] = One(Int32s(dims{2}, lengths...))
	}
	return c
}

// byHand is one step of one sequence of width 1, whose weights and biases are all 1/2.
func byHand(mode string, gates int64, want slots, states ...*tensor.Tensor) Case {
	half := func(dims ...int64) *tensor.Tensor {
		n, _ := tensor.Count(dims)
		values := make([]float64, n)
		for i := range values {
			values[i] = 0.5
		}
		return Floats(dims, values...)
	}
	return Case{Type: "rnn", Name: mode + " by hand", Attrs: attrs{"mode": mode, "hidden_size": int32(1), "input_size": int32(1)}, Outputs: map[string]int{"State": len(states), "DropoutState": 0},
		Inputs: slots{"Input": One(Floats(dims{1, 1, 1}, 2)), "PreState": states, "WeightList": One(half(gates, 1), half(gates, 1), half(gates), half(gates))}, Want: want}
}

var networkCases = func() []Case {
	one := Floats(dims{1, 1, 1}, 1)
	s := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	// a = 2/2 + 1/2 and b = 1/2 + 1/2, so a + b = 5/2.
	cell := s(2.5)*1 + s(2.5)*math.Tanh(2.5)
	candidate := math.Tanh(1.5 + s(2.5))
	return []Case{
		byHand("RNN_TANH", 1, slots{"Out": One(Floats(dims{1, 1, 1}, math.Tanh(2.5)))}, one), byHand("RNN_RELU", 1, slots{"Out": One(Floats(dims{1, 1, 1}, 2.5))}, one),
		byHand("LSTM", 4, slots{"Out": One(Floats(dims{1, 1, 1}, s(2.5)*math.Tanh(cell))), "State": One(Floats(dims{1, 1, 1}, s(2.5)*math.Tanh(cell)), Floats(dims{1, 1, 1}, cell))}, one, one),
		byHand("GRU", 3, slots{"Out": One(Floats(dims{1, 1, 1}, s(2.5)+(1-s(2.5))*candidate))}, one),
		networkCase("", "LSTM", 1, 1), networkCase("lengths", "LSTM", 2, 2, 3, 1), networkCase("lengths", "GRU", 2, 2, 0, 2), networkCase("", "GRU", 1, 1),
		networkCase("", "RNN_TANH", 2, 1), networkCase("", "RNN_RELU", 1, 2, 2, 3), withDropout(networkCase("dropped", "LSTM", 3, 2, 3, 2)), withDropout(networkCase("dropped", "GRU", 2, 1)),
	}
}()

// withDropout drops some of what layers give to each other.
func withDropout(c Case) Case {
	c.Attrs["dropout_prob"], c.Attrs["seed"] = float32(0.25), int32(3)
	return c
}

func TestNetworksThatDoNotFit(t *testing.T) {
	long := networkCase("", "GRU", 1, 1, 4, 1)
	few := networkCase("", "LSTM", 1, 1)
	few.Inputs["WeightList"] = few.Inputs["WeightList"][:3]
	drops := networkCase("", "LSTM", 2, 1)
	drops.Attrs["dropout_prob"] = float32(1.5)
	for _, c := range []struct {
		Case
		want fault.Kind
	}{{long, fault.InvalidArgument}, {few, fault.InvalidProgram}, {drops, fault.InvalidArgument}} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
