package sequence

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
)

func init() {
	opkit.Register(ops.Def{
		Type: "lstm",
		Doc: "Runs long short-term memory over sequences whose elements are projected already. With x the row of Input, h' and " +
			"c' Hidden and Cell of the step before (H0 and C0, or zeros, at the first), and p = x + h'*Weight + Bias[:4D] in four parts of " +
			"D elements c, i, f and o: candidate = cand(p_c), i = gate(p_i + w_i*c'), f = gate(p_f + w_f*c'), Cell = candidate*i + c'*f, " +
			"o = gate(p_o + w_o*Cell), Hidden = o*cell(Cell). The peepholes w_i, w_f and w_o are Bias[4D:7D].",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [rows, 4D], sequences of one LoD level"},
			{Name: "H0", Doc: "[sequences, D]; zeros when absent", Dispensable: true},
			{Name: "C0", Doc: "[sequences, D], beside H0", Dispensable: true},
			{Name: "Weight", Doc: "[D, 4D]: the columns of c, i, f and o"},
			{Name: "Bias", Doc: "[1, 4D], or with use_peepholes [1, 7D]"}},
		Outputs: []ops.Slot{
			{Name: "Hidden", Doc: "[rows, D], sequences as in Input"},
			{Name: "Cell", Doc: "[rows, D], sequences as in Input"},
			{Name: "BatchGate", Doc: "[rows, 4D]: candidate, i, f and o. The rows stand as in Input, where Fluid sorts them by step", Intermediate: true},
			{Name: "BatchCellPreAct", Doc: "[rows, D]: cell(Cell)", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "use_peepholes", Doc: "whether gates see the cell", Default: true},
			{Name: "is_reverse", Doc: "whether a sequence is read from its last row to its first", Default: false},
			activation("gate_activation", "function of the gates", "sigmoid"),
			activation("cell_activation", "function of the cell that goes into Hidden", "tanh"),
			activation("candidate_activation", "function of the candidate", "tanh")},
		Infer:   inferLSTM,
		Cost:    lstmCost(2),
		Bind:    opkit.BindFloats("Input", bindLSTM[float32], bindLSTM[float64]),
		InPlace: map[string]string{"BatchGate": "Input"},
	}, opkit.Gradient{
		Doc:     "the steps from the last to the first; dWeight = transpose(h')*dInput, dBias is the sum of dInput over rows.",
		Inputs:  []string{"H0", "C0", "Weight", "Bias"},
		Outputs: []string{"Hidden", "Cell", "BatchGate", "BatchCellPreAct"},
		Wrt:     []string{"Input", "H0", "C0", "Weight", "Bias"},
		StandIn: map[string]string{"Input": "BatchGate"},
		Cost:    lstmCost(4),
		Bind:    opkit.BindFloats("BatchGate", bindLSTMGrad[float32], bindLSTMGrad[float64]),
		InPlace: map[string]string{"Input@GRAD": "BatchGate"},
	})
}

var activations = []string{"sigmoid", "tanh", "relu", "identity"}

func activation(name, doc, byDefault string) ops.Attr {
	return ops.Attr{Name: name, Doc: doc + ": sigmoid, tanh, relu or identity", Default: byDefault, Check: func(op *program.Op) error {
		if value, _ := op.Str(name); !slices.Contains(activations, value) {
			return fault.New(fault.InvalidArgument, "sigmoid, tanh, relu or identity")
		}
		return nil
	}}
}

func inferLSTM(s *ops.Shapes) error {
	for _, slot := range []string{"Input", "Weight", "Bias"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "H0", "C0", "Weight", "Bias"); err != nil {
		return err
	}
	x, width := s.In("Input"), s.In("Weight").Dims[0]
	if width > math.MaxInt64/7 {
		return s.Errorf("Weight", "a width whose products do not overflow")
	}
	if gates := times(4, width); !opkit.Agree(s.In("Weight").Dims[1], gates) || !opkit.Agree(x.Dims[1], gates) {
		return s.Errorf("Weight", "dims [D, 4D] beside Input %v of 4D columns", x.Dims)
	}
	parts := int64(4)
	if s.Bool("use_peepholes") {
		parts = 7
	}
	if bias := s.In("Bias").Dims; !ops.Compatible(bias, []int64{1, times(parts, width)}) {
		return s.Errorf("Bias", "dims [1, %d*%d]", parts, width)
	}
	if err := inferInitialState(s, width); err != nil {
		return err
	}
	for _, slot := range []string{"Hidden", "Cell", "BatchCellPreAct"} {
		s.Set(slot, x.DType, x.Dims[0], width)
		s.ShareLoD(slot, "Input")
	}
	s.Like("BatchGate", "Input")
	return nil
}

// inferInitialState checks the sequences of Input, and H0 and C0 beside them.
func inferInitialState(s *ops.Shapes, width int64) error {
	sequences, err := s.CountSequences("Input")
	if err != nil {
		return err
	}
	if levels := s.In("Input").LoDLevel; levels != 1 {
		return s.Errorf("Input", "one LoD level, not %d", levels)
	}
	if s.Has("H0") != s.Has("C0") {
		return s.Errorf("H0", "H0 and C0, or neither")
	}
	for _, slot := range []string{"H0", "C0"} {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, []int64{sequences, width}) {
			return s.Errorf(slot, "dims [%d, %d], a row for each sequence", sequences, width)
		}
	}
	return nil
}

// times multiplies an extent that may be open.
func times(n, extent int64) int64 {
	if extent == program.Unknown {
		return program.Unknown
	}
	return n * extent
}

func lstmCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		rows := append(s.Outs("Hidden"), s.Ins("Hidden")...)[0].Dims[0]
		return ops.Cost{Flops: flops * opkit.Size([]int64{rows, opkit.Size(s.In("Weight").Dims)}), Bytes: opkit.Bytes(s)}
	}
}
