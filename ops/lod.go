package ops

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// The rows of a batch may be cut into sequences of different lengths: its level of detail (LoD), which comes with a feed. An op that keeps the rows
// of an input hands its LoD on, and says so in Infer: with Like, by copying a Meta, or with ShareLoD. So it is known before a run which
// variables have the LoD of which feed, and executors give it to their tensors when they feed; no kernel moves it.
//
// A kernel that works on sequences asks the tensor for its offsets on every run. When it is bound, the LoD of a tensor has the right number of
// sequences and the offsets mean nothing yet.

// ShareLoD says that the rows of an output slot are those of the first variable of an input slot, so that they form the same sequences. Dims are set
// before.
func (s *Shapes) ShareLoD(outSlot, inSlot string) {
	from := s.In(inSlot)
	for i := range s.out[outSlot] {
		s.out[outSlot][i] = s.out[outSlot][i].withLoD(from, from.LoDLevel)
	}
}

// PoolLoD says that an output slot has one row for each sequence of the innermost level of an input slot, so that the levels above remain.
func (s *Shapes) PoolLoD(outSlot, inSlot string) {
	from := s.In(inSlot)
	for i := range s.out[outSlot] {
		s.out[outSlot][i] = s.out[outSlot][i].withLoD(from, max(0, from.LoDLevel-1))
	}
}

// WithoutLoD returns m for rows that form no sequences, or others than those of the variable that m was copied from.
func (m Meta) WithoutLoD() Meta {
	m.LoDLevel, m.Sequences, m.LoDOf = 0, nil, ""
	return m
}

func (m Meta) withLoD(from Meta, levels int) Meta {
	m = m.WithoutLoD()
	if levels == 0 {
		return m
	}
	m.LoDLevel, m.LoDOf = levels, from.LoDOf
	if len(from.Sequences) >= levels {
		m.Sequences = slices.Clone(from.Sequences[:levels])
	}
	return m
}

// CountSequences checks that the rows of an input slot are cut into sequences, and returns how many the innermost level has, program.Unknown
// where that is open.
func (s *Shapes) CountSequences(slot string) (int64, error) {
	m := s.In(slot)
	if m.LoDLevel < 1 {
		return 0, fault.E(fault.InvalidArgument, fault.On(s.op), fault.Var(s.op.In(slot)),
			fault.Got(slot+" without LoD"), fault.Want("rows that are cut into sequences"),
			fault.Hint("declare the data with layers.LoD(1), and feed a tensor with offsets (tensor.Tensor.SetLoD)"))
	}
	if len(m.Sequences) < m.LoDLevel {
		return program.Unknown, nil
	}
	return m.Sequences[m.LoDLevel-1], nil
}

// countSequences returns how many sequences each level of a LoD has.
func countSequences(lod [][]int64) []int64 {
	counts := make([]int64, len(lod))
	for i, level := range lod {
		counts[i] = max(0, int64(len(level))-1)
	}
	return counts
}
