package sequence

import (
	"cmp"
	"slices"
)

// steps orders a range of sequences for work step by step. Runs share its memory.
type steps struct {
	offsets []int64
	reverse bool  // the last row of a sequence is its first step
	order   []int // sequences, the longest first; equally long ones keep their order
}

// arrange takes sequences [from, to) of a batch.
func (s *steps) arrange(offsets []int64, reverse bool, from, to int) {
	s.offsets, s.reverse = offsets, reverse
	s.order = slices.Grow(s.order[:0], to-from)
	for i := from; i < to; i++ {
		s.order = append(s.order, i)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(s.length(b), s.length(a)) })
}

func (s *steps) length(sequence int) int {
	return int(s.offsets[sequence+1] - s.offsets[sequence])
}

// longest returns the number of steps.
func (s *steps) longest() int {
	if len(s.order) == 0 {
		return 0
	}
	return s.length(s.order[0])
}

// active returns how many sequences have a step. They are the first of order. before is an upper bound of the result.
func (s *steps) active(step, before int) int {
	for before > 0 && s.length(s.order[before-1]) <= step {
		before--
	}
	return before
}

// row returns the row of the batch that a sequence has at a step.
func (s *steps) row(sequence, step int) int {
	if s.reverse {
		return int(s.offsets[sequence+1]) - 1 - step
	}
	return int(s.offsets[sequence]) + step
}
