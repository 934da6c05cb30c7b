package layers

import (
	"math"

	"github.com/edl-go/edl/fault"
)

// RNN reads sequences x [batch, steps, width] with layers of a recurrent network of a mode: LSTM, GRU, RNN_TANH or RNN_RELU, as PyTorch and Paddle 2 define them. hidden is the
// width of its states, which begin with zeros. With both, each layer reads forwards and backwards, and gives both states side by side. The result is [batch, steps,
// hidden or 2*hidden].
//
// Options: Param (of all weights), Bias, Name. Op: rnn.
func RNN(x Variable, mode string, hidden int64, depth int, both bool, opts ...Option) Variable {
	l := start("rnn", opts, []string{"Param", "Bias"}, x)
	gates := map[string]int64{"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}[mode] * hidden
	if l.failed {
		return l.fail()
	}
	if len(x.v.Dims) != 3 {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("sequences [batch, steps, width]")))
	}
	directions := int64(1)
	if both {
		directions = 2
	}
	if hidden < 1 || depth < 1 || gates < 1 {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("mode %s, %d layers of width %d", mode, depth, hidden), fault.Want("LSTM, GRU, RNN_TANH or RNN_RELU, and numbers from 1")))
	}
	all := int64(depth) * directions
	bound := 1 / math.Sqrt(float64(max(hidden, 1)))
	var weights, biases []Variable
	for index := range all {
		width := x.v.Dims[2]
		if index >= directions {
			width = directions * hidden
		}
		for _, dims := range [][]int64{{gates, width}, {gates, hidden}} {
			weights = append(weights, l.parameter("w", l.param, x.DType(), dims, Uniform(-bound, bound)))
			biases = append(biases, l.parameter("b", l.bias, x.DType(), []int64{gates}, Uniform(-bound, bound)))
		}
	}
	turned := Transpose(x, []int{1, 0, 2})
	first := In{"Input": {turned}, "WeightList": append(weights, biases...)}
	states := 1
	if mode == "LSTM" {
		states = 2
	}
	for range states {
		first["PreState"] = append(first["PreState"], l.op("fill_constant_batch_size_like", In{"Input": {x}},
			Attrs{"shape": []int64{all, -1, hidden}, "dtype": x.DType(), "value": 0, "input_dim_idx": 0, "output_dim_idx": 1}, "Out"))
	}
	out := In{"Out": {l.temporary()}, "Reserve": {l.temporary()}, "State": NewVariables(l.model, "rnn_state", states)}
	l.write("rnn", first, Attrs{"mode": mode, "hidden_size": hidden, "input_size": x.v.Dims[2], "num_layers": depth, "is_bidirec": both}, out)
	if l.failed {
		return l.fail()
	}
	return l.result(Transpose(out["Out"][0], []int{1, 0, 2}))
}

// LSTM reads sequences x [steps, batch, width] with layers of lstm, from the first states h and c [layers, batch, hidden]. With both, each layer reads forwards and backwards, gives both states
// side by side, and has two first states. The results are h of each step of the last layer [steps, batch, hidden or 2*hidden], and the last states as h and c. The weights of all layers are one
// parameter, in the order of cuDNN. (Fluid: lstm.)
//
// Options: Param, Name. Op: cudnn_lstm.
func LSTM(x, h, c Variable, both bool, opts ...Option) (out, lastH, lastC Variable) {
	l := start("cudnn_lstm", opts, []string{"Param"}, x, h, c)
	if l.failed {
		v := l.fail()
		return v, v, v
	}
	directions := int64(1)
	if both {
		directions = 2
	}
	if len(x.v.Dims) != 3 || len(h.v.Dims) != 3 || h.v.Dims[0] < 1 || h.v.Dims[0]%directions != 0 || h.v.Dims[2] < 1 || x.v.Dims[2] < 0 {
		v := l.mistake(fault.E(fault.ShapeMismatch, fault.Gotf("%v and first states %v", x, h), fault.Want("x [steps, batch, width], and for each layer and direction a first state [batch, hidden]")))
		return v, v, v
	}
	hidden, depth := h.v.Dims[2], h.v.Dims[0]/directions
	size := directions * 4 * hidden * (x.v.Dims[2] + hidden + 2 + (depth-1)*((directions+1)*hidden+2))
	bound := 1 / math.Sqrt(float64(hidden))
	w := l.parameter("w", l.param, x.DType(), []int64{size}, Uniform(-bound, bound))
	made := l.multi("cudnn_lstm", In{"Input": {x}, "InitH": {h}, "InitC": {c}, "W": {w}}, Attrs{"hidden_size": hidden, "num_layers": depth, "is_bidirec": both}, "Out", "LastH", "LastC", "Reserve")
	return l.result(made[0]), made[1], made[2]
}
