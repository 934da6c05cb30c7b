package nn_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// cudnnCase is networkCase as cudnn_lstm, with all weights in one vector.
func cudnnCase(name string, layers, directions int, lengths ...int32) Case {
	c := networkCase(name, "LSTM", layers, directions, lengths...)
	var all []float64
	for _, w := range c.Inputs["WeightList"] {
		all = append(all, w.Float64s()...)
	}
	inputs := slots{"Input": c.Inputs["Input"], "InitH": c.Inputs["PreState"][:1], "InitC": c.Inputs["PreState"][1:], "W": One(Floats(dims{int64(len(all))}, all...))}
	if len(lengths) > 0 {
		inputs["SequenceLength"] = c.Inputs["SequenceLength"]
	}
	return Case{Type: "cudnn_lstm", Name: name, Inputs: inputs, Attrs: attrs{"hidden_size": int32(2), "num_layers": int32(layers), "is_bidirec": directions == 2}}
}

var cudnnCases = func() []Case {
	list, again := cudnnCase("list", 1, 1), cudnnCase("without Reserve", 2, 2)
	delete(list.Inputs, "W")
	list.Inputs["WeightList"] = networkCase("", "LSTM", 1, 1).Inputs["WeightList"]
	again.Outputs = map[string]int{"Reserve": 0, "StateOut": 0}
	return []Case{cudnnCase("", 1, 1), cudnnCase("lengths", 2, 2, 3, 1), list, again}
}()

// One vector of weights computes the bits of the list of them in rnn, forwards and backwards.
func TestCudnnLSTMIsRNN(t *testing.T) {
	one, many := cudnnCase("", 2, 2, 3, 2), networkCase("", "LSTM", 2, 2, 3, 2)
	traces, err := Traces(one)
	if err != nil {
		t.Fatal(err)
	}
	m := NewInterpreter(map[string]*tensor.Tensor{}, ops.Step{})
	forward := &program.Op{Type: "rnn", Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {"out"}, "State": {"h", "c"}, "Reserve": {"reserve"}}, Attrs: many.Attrs}
	backward := &program.Op{Type: "rnn_grad", Inputs: map[string][]string{"Out": {"out"}, "Reserve": {"reserve"}, "Out@GRAD": {"dout"}, "State@GRAD": {"dh", "dc"}}, Outputs: map[string][]string{}, Attrs: many.Attrs}
	for slot, values := range many.Inputs {
		for i, v := range values {
			name := slot + string(rune('a'+i))
			m.Vars[name] = v
			forward.Inputs[slot], backward.Inputs[slot] = append(forward.Inputs[slot], name), append(backward.Inputs[slot], name)
		}
	}
	for slot := range many.Inputs {
		for _, name := range forward.Inputs[slot] {
			if slot != "SequenceLength" {
				backward.Outputs[slot+"@GRAD"] = append(backward.Outputs[slot+"@GRAD"], "d"+name)
			}
		}
	}
	want := traces[0].Vars
	m.Vars["dout"], m.Vars["dh"], m.Vars["dc"] = want["Out.0@GRAD"], want["LastH.0@GRAD"], want["LastC.0@GRAD"]
	if err := m.Run(context.Background(), forward, backward); err != nil {
		t.Fatal(err)
	}
	var weights []float64
	for _, name := range backward.Outputs["WeightList@GRAD"] {
		weights = append(weights, m.Vars[name].Float64s()...)
	}
	if !slices.Equal(weights, want["W.0@GRAD"].Float64s()) {
		t.Errorf("gradient of the weights %v, in rnn %v", want["W.0@GRAD"].Float64s(), weights)
	}
	for ours, theirs := range map[string]string{"Out.0": "out", "LastH.0": "h", "LastC.0": "c", "Input.0@GRAD": "dInputa", "InitH.0@GRAD": "dPreStatea", "InitC.0@GRAD": "dPreStateb"} {
		if err := SameBits(want[ours], m.Vars[theirs]); err != nil {
			t.Errorf("%s: %v", ours, err)
		}
	}
}

func TestCudnnLSTMThatDoesNotFit(t *testing.T) {
	short, both, none, drops := cudnnCase("short", 1, 1), cudnnCase("both", 1, 1), cudnnCase("none", 1, 1), cudnnCase("drops", 2, 1)
	short.Inputs["W"] = One(Spread(1, 47))
	both.Inputs["WeightList"] = networkCase("", "LSTM", 1, 1).Inputs["WeightList"]
	delete(none.Inputs, "W")
	drops.Attrs["dropout_prob"] = float32(-1)
	for _, c := range []struct {
		Case
		want fault.Kind
	}{{short, fault.ShapeMismatch}, {both, fault.ShapeMismatch}, {none, fault.InvalidProgram}, {drops, fault.InvalidArgument}} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
