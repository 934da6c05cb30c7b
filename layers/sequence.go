package layers

import (
	"strings"

	"github.com/edl-go/edl/fault"
)

// LoD says that the rows of Data or Field form sequences, in the given number of levels: 1 for sentences of words, 2 for paragraphs of sentences. The variable has one
// open axis, for the rows of all sequences. The fed tensor carries the offsets of the sequences (tensor.Tensor.SetLoD). With Field, each sample is one
// sequence of the outermost level: a record has the offsets of the levels below (tensor.Tensor.SetLoD), and of the outermost one if it likes.
func LoD(levels int) Option { return Option{"LoD", func(s *settings) { s.lod = levels }} }

// NoPeepholes builds DynamicLSTM and DynamicLSTMP without peepholes: the gates do not see the cell, and the bias has no weights for it.
func NoPeepholes() Option { return Option{"NoPeepholes", func(s *settings) { s.noPeepholes = true }} }

// Reverse makes DynamicLSTM, DynamicLSTMP and DynamicGRU read each sequence from its end.
func Reverse() Option { return Option{"Reverse", func(s *settings) { s.reverse = true }} }

// InitialState sets the first hidden and cell of DynamicLSTM, [sequences, size/4] each. The default is zeros.
func InitialState(hidden, cell Variable) Option {
	return Option{"InitialState", func(s *settings) { s.hidden, s.cell = &hidden, &cell }}
}

// LSTMActs sets the functions of DynamicLSTM: for the gates, for the cell before it enters hidden, and for the candidate. Each is sigmoid, tanh,
// relu or identity. The defaults are sigmoid, tanh and tanh.
func LSTMActs(gate, cell, candidate string) Option {
	return Option{"LSTMActs", func(s *settings) { s.gateAct, s.cellAct, s.candidateAct = gate, cell, candidate }}
}

// DynamicLSTM is a long short-term memory over sequences. x is [rows, size], such as the result of FC. It holds the input for the candidate, input,
// forget and output gate of each row. hidden and cell are [rows, size/4]. Parameters: w_0 [size/4, size] and b_0 [1, size], with peepholes [1,
// 7*size/4].
//
// Options: Param (default Xavier), Bias (default 0), NoPeepholes, Reverse, InitialState, LSTMActs, Name (of hidden). Op: lstm.
func DynamicLSTM(x Variable, size int64, opts ...Option) (hidden, cell Variable) {
	l := start("lstm", opts, []string{"Param", "Bias", "NoPeepholes", "Reverse", "InitialState", "LSTMActs"}, x)
	in, attrs := lstmCells(l, x, size, size/4)
	out := l.multi("lstm", in, attrs, "Hidden", "Cell", "BatchGate", "BatchCellPreAct")
	return l.result(out[0]), out[1]
}

// lstmCells returns the inputs and attributes that DynamicLSTM and DynamicLSTMP have in common. A step gets fed elements of the step before.
func lstmCells(l *layer, x Variable, size, fed int64) (In, Attrs) {
	if !l.failed && (size < 4 || size%4 != 0) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("size %d", size), fault.Want("four times the width of the cell, at least 4")))
	}
	if l.failed {
		return In{}, nil
	}
	bias := size
	if !l.noPeepholes {
		bias += 3 * (size / 4)
	}
	in := In{"Input": {x}, "Weight": {l.parameter("w", l.param, x.DType(), []int64{fed, size}, Xavier())},
		"Bias": {l.parameter("b", l.bias, x.DType(), []int64{1, bias}, Constant(0))}}
	if l.hidden != nil {
		alsoOn(l, *l.hidden, *l.cell)
		in["H0"], in["C0"] = []Variable{*l.hidden}, []Variable{*l.cell}
	}
	return in, Attrs{"use_peepholes": !l.noPeepholes, "is_reverse": l.reverse,
		"gate_activation": l.gateAct, "cell_activation": l.cellAct, "candidate_activation": l.candidateAct}
}

// CellClip limits the cells of DynamicLSTMP to [-bound, bound].
func CellClip(bound float64) Option {
	return Option{"CellClip", func(s *settings) { s.cellClip = bound }}
}

// ProjectionClip limits the projections of DynamicLSTMP to [-bound, bound].
func ProjectionClip(bound float64) Option {
	return Option{"ProjectionClip", func(s *settings) { s.projectionClip = bound }}
}

// LinearProjection leaves out the function of the projection of DynamicLSTMP. By default it is the function of the cell, as in Fluid.
func LinearProjection() Option {
	return Option{"LinearProjection", func(s *settings) { s.linearProjection = true }}
}

// DynamicLSTMP is DynamicLSTM whose steps hand on a projection of their hidden values to fewer elements. x is [rows, size], projected is [rows, projection], and
// cell is [rows, size/4]. Parameters: w_0 [projection, size], w_1 [size/4, projection], and b_0 [1, size], with peepholes [1, 7*size/4].
//
// Options: Param (default Xavier; a name is only for w_0), Bias (default 0), NoPeepholes, Reverse, InitialState ([sequences, projection] and [sequences, size/4]), LSTMActs,
// LinearProjection, CellClip, ProjectionClip, Name (of projected). Op: lstmp.
func DynamicLSTMP(x Variable, size, projection int64, opts ...Option) (projected, cell Variable) {
	l := start("lstmp", opts, []string{"Param", "Bias", "NoPeepholes", "Reverse", "InitialState", "LSTMActs", "LinearProjection", "CellClip", "ProjectionClip"}, x)
	in, attrs := lstmCells(l, x, size, projection)
	if l.failed {
		return l.fail(), l.fail()
	}
	unnamed := l.param
	unnamed.Name = ""
	in["ProjWeight"] = []Variable{l.parameter("w", unnamed, x.DType(), []int64{size / 4, projection}, Xavier())}
	attrs["cell_clip"], attrs["proj_clip"], attrs["proj_activation"] = l.cellClip, l.projectionClip, l.cellAct
	if l.linearProjection {
		attrs["proj_activation"] = "identity"
	}
	out := l.multi("lstmp", in, attrs, "Projection", "Cell", "BatchGate", "BatchCellPreAct", "BatchHidden")
	return l.result(out[0]), out[1]
}

// SequencePool makes one row of each sequence of x, column by column. kind is max, average, sum, sqrt (the sum divided by the square root of the
// length), last or first. A sequence without rows gives zeros.
//
// Options: Name. Op: sequence_pool.
func SequencePool(x Variable, kind string, opts ...Option) Variable {
	l := start("sequence_pool", opts, nil, x)
	slots := []string{"Out"}
	if kind == "max" {
		slots = append(slots, "MaxIndex")
	}
	return l.result(l.multi("sequence_pool", In{"X": {x}}, Attrs{"pooltype": strings.ToUpper(kind)}, slots...)[0])
}

// SequenceFirstStep is the first row of each sequence. Options: Name. Op: sequence_pool.
func SequenceFirstStep(x Variable, opts ...Option) Variable { return SequencePool(x, "first", opts...) }

// SequenceLastStep is the last row of each sequence. Options: Name. Op: sequence_pool.
func SequenceLastStep(x Variable, opts ...Option) Variable { return SequencePool(x, "last", opts...) }
