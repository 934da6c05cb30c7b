package ops

import (
	"cmp"
	"slices"
)

// A RankTable orders the sequences of a batch by their lengths, the longest first: the value of a variable of kind program.LoDRankTable. Sequences of one
// length keep their order. So the sequences that have a step t are the first ones, for every t.
type RankTable struct {
	Order   []int   // the sequences by rank
	Lengths []int64 // of the sequences, by rank
	Offsets []int64 // of the sequences in the batch, in its order
}

// Set takes the offsets of a batch. It allocates nothing if the table has held as many sequences before.
func (r *RankTable) Set(offsets []int64) {
	r.Offsets = append(r.Offsets[:0], offsets...)
	r.Order, r.Lengths = r.Order[:0], r.Lengths[:0]
	for i := range max(0, len(offsets)-1) {
		r.Order = append(r.Order, i)
	}
	slices.SortFunc(r.Order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.length(b), r.length(a)), cmp.Compare(a, b))
	})
	for _, i := range r.Order {
		r.Lengths = append(r.Lengths, r.length(i))
	}
}

func (r *RankTable) length(i int) int64 { return r.Offsets[i+1] - r.Offsets[i] }

// Longest returns the length of the longest sequence, 0 if there is none.
func (r *RankTable) Longest() int64 {
	if len(r.Lengths) == 0 {
		return 0
	}
	return r.Lengths[0]
}

// Rows returns the number of rows of the batch.
func (r *RankTable) Rows() int64 {
	if len(r.Offsets) == 0 {
		return 0
	}
	return r.Offsets[len(r.Offsets)-1]
}

// Having returns how many sequences have a step t.
func (r *RankTable) Having(t int64) int64 {
	n, _ := slices.BinarySearchFunc(r.Lengths, t, func(length, t int64) int {
		if length > t {
			return -1
		}
		return 1
	})
	return int64(n)
}
