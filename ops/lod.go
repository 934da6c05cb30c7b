package ops

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A level of detail (LoD) divides the rows of a batch into sequences of different lengths. It comes with a feed. If an output of an op has the
// rows of an input, it has its LoD too, and Infer says so: with Like, by copying a Meta, or with ShareLoD. So executors know before a run which
// variables have the LoD of which feed. They set it when they feed, and no kernel moves it.
//
// A kernel that works on sequences asks the tensor for the offsets on every run. During Bind the LoD of a tensor has the right number of
// sequences, but its offsets mean nothing yet.

// ShareLoD gives an output slot the LoD of the first variable of an input slot. Set the dims before.
func (s *Shapes) ShareLoD(outSlot, inSlot string) {
	from := s.In(inSlot)
	for i := range s.out[outSlot] {
		s.out[outSlot][i] = s.out[outSlot][i].withLoD(from, from.LoDLevel)
	}
}

// PoolLoD gives an output slot, which has one row for each innermost sequence of an input slot, the LoD levels above the innermost.
func (s *Shapes) PoolLoD(outSlot, inSlot string) {
	from := s.In(inSlot)
	for i := range s.out[outSlot] {
		s.out[outSlot][i] = s.out[outSlot][i].withLoD(from, max(0, from.LoDLevel-1))
	}
}

// WithoutLoD returns m without LoD.
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

// CountSequences checks that an input slot has a LoD. It returns the number of innermost sequences, program.Unknown if that is open.
func (s *Shapes) CountSequences(slot string) (int64, error) {
	m := s.In(slot)
	if m.LoDLevel < 1 {
		return 0, fault.E(fault.InvalidArgument, fault.On(s.op), fault.Var(s.op.In(slot)),
			fault.Got(slot+" without LoD"), fault.Want("rows that form sequences"),
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
