package layers

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

// InitialHidden sets the first hidden value of DynamicGRU, [sequences, size]. The default is zeros.
func InitialHidden(hidden Variable) Option {
	return Option{"InitialHidden", func(s *settings) { s.hidden = &hidden }}
}

// GRUActs sets the functions of DynamicGRU and GRUUnit: for the gates and for the candidate. Each is sigmoid, tanh, relu or identity. The defaults are
// sigmoid and tanh.
func GRUActs(gate, candidate string) Option {
	return Option{"GRUActs", func(s *settings) { s.gateAct, s.candidateAct = gate, candidate }}
}

// OriginMode makes the update gate of DynamicGRU and GRUUnit keep the hidden value of the step before, as in the paper. By default it lets the candidate in.
func OriginMode() Option { return Option{"OriginMode", func(s *settings) { s.origin = true }} }

// DynamicGRU is a gated recurrent unit over sequences. x is [rows, 3*size], such as the result of FC. It holds the input of update gate, reset gate and
// candidate of each row. The result is [rows, size]. Parameters: w_0 [size, 3*size] and b_0 [1, 3*size].
//
// Options: Param (default Xavier), Bias (default 0), NoBias, Reverse, InitialHidden, GRUActs, OriginMode, Name. Op: gru.
func DynamicGRU(x Variable, size int64, opts ...Option) Variable {
	l := start("gru", opts, []string{"Param", "Bias", "NoBias", "Reverse", "InitialHidden", "GRUActs", "OriginMode"}, x)
	in := recurrentParameters(l, x, size)
	if l.hidden != nil {
		alsoOn(l, *l.hidden)
		in["H0"] = []Variable{*l.hidden}
	}
	attrs := Attrs{"is_reverse": l.reverse, "origin_mode": l.origin, "gate_activation": l.gateAct, "activation": l.candidateAct}
	return l.result(l.multi("gru", in, attrs, "Hidden", "BatchGate", "BatchResetHiddenPrev")[0])
}

// recurrentParameters returns the inputs of a gated recurrent unit.
func recurrentParameters(l *layer, x Variable, size int64) In {
	if !l.failed && size < 1 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("size %d", size), fault.Want("the width of hidden, at least 1")))
	}
	if l.failed {
		return In{}
	}
	in := In{"Input": {x}, "Weight": {l.parameter("w", l.param, x.DType(), []int64{size, 3 * size}, Xavier())}}
	if !l.noBias {
		in["Bias"] = []Variable{l.parameter("b", l.bias, x.DType(), []int64{1, 3 * size}, Constant(0))}
	}
	return in
}

// alsoOn checks that variables which options name are of the model of the layer.
func alsoOn(l *layer, variables ...Variable) {
	for _, v := range variables {
		if l.failed {
			return
		}
		if l.model != v.model {
			l.mistake(ofTwoModels(v))
		} else if !v.OK() {
			l.fail()
		}
	}
}

// GRUUnit is one step of a gated recurrent unit. x is [rows, 3*size] as for DynamicGRU, before is the hidden value of the step before, [rows, size]. hidden and
// reset, which is before times the reset gate, are [rows, size]; gates is [rows, 3*size]. Parameters: w_0 [size, 3*size] and b_0 [1, 3*size].
//
// Options: Param (default Xavier), Bias (default 0), NoBias, GRUActs, OriginMode, Name (of hidden). Op: gru_unit.
func GRUUnit(x, before Variable, size int64, opts ...Option) (hidden, reset, gates Variable) {
	l := start("gru_unit", opts, []string{"Param", "Bias", "NoBias", "GRUActs", "OriginMode"}, x, before)
	in := recurrentParameters(l, x, size)
	in["HiddenPrev"] = []Variable{before}
	attrs := Attrs{"origin_mode": l.origin}
	for name, act := range map[string]string{"gate_activation": l.gateAct, "activation": l.candidateAct} {
		number := slices.Index([]string{"identity", "sigmoid", "tanh", "relu"}, act)
		if number < 0 && !l.failed {
			l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("function %q", act), fault.Want("sigmoid, tanh, relu or identity")))
		}
		attrs[name] = number
	}
	out := l.multi("gru_unit", in, attrs, "Hidden", "ResetHiddenPrev", "Gate")
	return l.result(out[0]), out[1], out[2]
}

// ForgetBias is added to the input of the forget gate of LSTMUnit. The default is 0.
func ForgetBias(bias float64) Option {
	return Option{"ForgetBias", func(s *settings) { s.forgetBias = bias }}
}

// LSTMUnit is one step of long short-term memory. x is [rows, columns]; hiddenBefore and cellBefore, [rows, size], are those of the step before. All gates are an
// FC of x and hiddenBefore side by side. Parameters: those of the FC, w_0 [columns+size, 4*size] and b_0 [4*size].
//
// Options: Param (default Xavier), Bias (default 0), NoBias, ForgetBias, Name (of hidden). Ops: concat, mul, elementwise_add, lstm_unit.
func LSTMUnit(x, hiddenBefore, cellBefore Variable, opts ...Option) (hidden, cell Variable) {
	l := start("lstm_unit", opts, []string{"Param", "Bias", "NoBias", "ForgetBias"}, x, hiddenBefore, cellBefore)
	if !l.failed && (x.rank() != 2 || hiddenBefore.rank() != 2 || cellBefore.rank() != 2) {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Gotf("%v, %v and %v", x, hiddenBefore, cellBefore), fault.Want("three matrices")))
	}
	if l.failed {
		return l.fail(), l.fail()
	}
	size := cellBefore.v.Dims[1]
	both := l.op("concat", In{"X": {x, hiddenBefore}}, Attrs{"axis": 1}, "Out")
	w := l.parameter("w", l.param, x.DType(), []int64{x.v.Dims[1] + hiddenBefore.v.Dims[1], 4 * size}, Xavier())
	gates := l.addBias(l.op("mul", In{"X": {both}, "Y": {w}}, Attrs{"x_num_col_dims": 1, "y_num_col_dims": 1}, "Out"), 1)
	out := l.multi("lstm_unit", In{"X": {gates}, "C_prev": {cellBefore}}, Attrs{"forget_bias": l.forgetBias}, "H", "C")
	return l.result(out[0]), out[1]
}
