package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "attention_lstm",
		Doc: "Reads each sequence as often as it has rows, with an lstm whose step gets a mean of all rows of the sequence. A row counts by softmax(e), where e = relu(x*wx + b + c*wc) with the cell c of the step " +
			"before, and with AttentionScalar e = relu(s*e + sb). With (f, i, o, g) = h*Wh + mean*Wx + LSTMBias a step computes c = gate(f)*c + gate(i)*candidate(g) and h = gate(o)*cell(c). As in Fluid it has no gradient.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [rows, M] of one LoD level"},
			{Name: "C0", Doc: "the first cell of each sequence [N, D]"}, {Name: "H0", Doc: "the first h of each sequence [N, D]; zeros without", Dispensable: true},
			{Name: "AttentionWeight", Doc: "[M+D, 1]: wx, and below wc"}, {Name: "AttentionBias", Doc: "[1, 1]: b", Dispensable: true},
			{Name: "AttentionScalar", Doc: "[1, 1]: s", Dispensable: true}, {Name: "AttentionScalarBias", Doc: "[1, 1]: sb, with AttentionScalar", Dispensable: true},
			{Name: "LSTMWeight", Doc: "[D+M, 4D]: Wh, and below Wx; columns of f, i, o, g"}, {Name: "LSTMBias", Doc: "[1, 4D]"}},
		Outputs: []ops.Slot{{Name: "Hidden", Doc: "h of each step [rows, D]"}, {Name: "Cell", Doc: "c of each step [rows, D]"},
			{Name: "AttentionedX", Doc: "[rows, 1]: x*wx + b", Intermediate: true},
			{Name: "AttentionFCOut", Doc: "[rows, 1]: what rows count in the last step; in Fluid of the longest sequence alone", Intermediate: true},
			{Name: "LSTMX", Doc: "[1, M]: 0; in Fluid the mean of the last step", Intermediate: true}, {Name: "LSTMOUT", Doc: "[1, 4D]: 0; in Fluid the gates of the last step", Intermediate: true}},
		Attrs: []ops.Attr{activation("gate_activation", "function of the gates", "sigmoid"), activation("cell_activation", "function of the cell that goes into Hidden", "tanh"),
			activation("candidate_activation", "function of the candidate", "tanh")},
		Infer:     inferAttention,
		MixesRows: opkit.RowsTogether("X", "C0", "H0"),
		Cost: func(s *ops.Shapes) ops.Cost {
			return ops.Cost{Flops: opkit.Size([]int64{2, s.In("X").Dims[0], opkit.Size(s.In("LSTMWeight").Dims)}), Bytes: opkit.Bytes(s)}
		},
		Bind: opkit.BindFloats("X", bindAttention[float32], bindAttention[float64]),
	})
}

func inferAttention(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "C0", "H0", "AttentionWeight", "AttentionBias", "AttentionScalar", "AttentionScalarBias", "LSTMWeight", "LSTMBias"); err != nil {
		return err
	}
	for _, slot := range []string{"X", "C0", "LSTMWeight"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	sequences, err := s.CountSequences("X")
	if err != nil {
		return err
	}
	if levels := s.In("X").LoDLevel; levels != 1 {
		return s.Errorf("X", "one LoD level, not %d", levels)
	}
	x, width := s.In("X"), s.In("C0").Dims[1]
	fed := int64(program.Unknown)
	if m := x.Dims[1]; m >= 0 && width >= 0 {
		fed = m + width
	}
	for slot, want := range opkit.InOrder(map[string][]int64{"C0": {sequences, width}, "H0": {sequences, width}, "AttentionWeight": {fed, 1}, "AttentionBias": {1, 1}, "AttentionScalar": {1, 1},
		"AttentionScalarBias": {1, 1}, "LSTMWeight": {fed, times(4, width)}, "LSTMBias": {1, times(4, width)}}) {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, want) {
			return s.Errorf(slot, "dims %v", want)
		}
	}
	if s.Has("AttentionScalarBias") && !s.Has("AttentionScalar") {
		return s.Errorf("AttentionScalarBias", "AttentionScalar too")
	}
	for slot, columns := range opkit.InOrder(map[string]int64{"Hidden": width, "Cell": width, "AttentionedX": 1, "AttentionFCOut": 1}) {
		s.Set(slot, x.DType, x.Dims[0], columns)
		s.ShareLoD(slot, "X")
	}
	s.Set("LSTMX", x.DType, 1, x.Dims[1])
	s.Set("LSTMOUT", x.DType, 1, times(4, width))
	return nil
}

// An attention is a bound attention_lstm.
type attention[T tensor.Float] struct {
	x, c0, h0, weight, bias, scalar, scalarBias, lstm, lstmBias *tensor.Tensor
	hidden, cell, projected, counts                             *tensor.Tensor
	rows, m, d                                                  int
	gate, candidate, active                                     kernel.Activation[T]
}

func bindAttention[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	known := kernel.Activations[T]()
	a := &attention[T]{x: b.In("X"), c0: b.In("C0"), h0: b.In("H0"), weight: b.In("AttentionWeight"), bias: b.In("AttentionBias"), scalar: b.In("AttentionScalar"),
		scalarBias: b.In("AttentionScalarBias"), lstm: b.In("LSTMWeight"), lstmBias: b.In("LSTMBias"),
		gate: known[b.Str("gate_activation")], candidate: known[b.Str("candidate_activation")], active: known[b.Str("cell_activation")]}
	a.rows, a.m, a.d = int(a.x.Dims()[0]), int(a.x.Dims()[1]), int(a.c0.Dims()[1])
	a.hidden, a.cell = orScratch[T](b, "Hidden", a.rows*a.d), orScratch[T](b, "Cell", a.rows*a.d)
	a.projected, a.counts = orScratch[T](b, "AttentionedX", a.rows), orScratch[T](b, "AttentionFCOut", a.rows)
	rest := []*tensor.Tensor{b.Out("LSTMX"), b.Out("LSTMOUT")}
	sequences, each := batchIn(b, "X"), a.m+8*a.d
	work := b.Scratch(tensor.Of[T](), b.Parts()*each)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		for _, t := range rest {
			if t != nil {
				clear(tensor.Data[T](t))
			}
		}
		return nil
	}}, ops.Loop{N: sequences.n, Apart: true, Run: func(part, first, end int) error {
		offsets, err := sequences.offsets()
		if err != nil {
			return err
		}
		for i := first; i < end; i++ {
			if from, to := int(offsets[i]), int(offsets[i+1]); from < to {
				a.read(i, from, to, ops.Part(tensor.Data[T](work), part, each))
			}
		}
		return nil
	}})
}

// read computes the steps of a sequence, which has rows [from, to). work has room for a mean, and twice for the gates.
func (a *attention[T]) read(sequence, from, to int, work []T) {
	x, projected, counts := tensor.Data[T](a.x), tensor.Data[T](a.projected)[from:to], tensor.Data[T](a.counts)[from:to]
	wx, wc := tensor.Data[T](a.weight)[:a.m], tensor.Data[T](a.weight)[a.m:]
	for k := range projected {
		projected[k] = dot(row(x, from+k, a.m), wx)
		if a.bias != nil {
			projected[k] += tensor.Data[T](a.bias)[0]
		}
	}
	mean, sums, gates := work[:a.m], work[a.m:][:4*a.d], work[a.m+4*a.d:][:4*a.d]
	c, h := row(tensor.Data[T](a.c0), sequence, a.d), []T(nil)
	if a.h0 != nil {
		h = row(tensor.Data[T](a.h0), sequence, a.d)
	}
	matrix := tensor.Data[T](a.lstm)
	for step := from; step < to; step++ {
		past := dot(c, wc)
		for k, p := range projected {
			counts[k] = max(p+past, 0)
			if a.scalar != nil {
				counts[k] *= tensor.Data[T](a.scalar)[0]
				if a.scalarBias != nil {
					counts[k] += tensor.Data[T](a.scalarBias)[0]
				}
				counts[k] = max(counts[k], 0)
			}
		}
		kernel.Softmax(counts, counts, 1, len(counts))
		clear(mean)
		for k, share := range counts {
			kernel.Axpy(mean, row(x, from+k, a.m), share)
		}
		copy(sums, tensor.Data[T](a.lstmBias))
		for k, v := range h {
			kernel.Axpy(sums, row(matrix, k, 4*a.d), v)
		}
		for k, v := range mean {
			kernel.Axpy(sums, row(matrix, a.d+k, 4*a.d), v)
		}
		a.gate.Func(gates[:3*a.d], sums[:3*a.d])
		a.candidate.Func(gates[3*a.d:], sums[3*a.d:])
		forget, input, output, candidate := row(gates, 0, a.d), row(gates, 1, a.d), row(gates, 2, a.d), row(gates, 3, a.d)
		next, hidden := row(tensor.Data[T](a.cell), step, a.d), row(tensor.Data[T](a.hidden), step, a.d)
		for k := range next {
			next[k] = T(forget[k]*c[k]) + T(input[k]*candidate[k])
		}
		a.active.Func(sums[:a.d], next)
		for k := range hidden {
			hidden[k] = output[k] * sums[k]
		}
		c, h = next, hidden
	}
}

// dot is the sum of products, from the first to the last.
func dot[T tensor.Float](x, y []T) (sum T) {
	for k, v := range x {
		sum += T(v * y[k])
	}
	return sum
}
