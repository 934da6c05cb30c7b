package ops

import (
	"cmp"
	"slices"
)

// A RankTable orders the sequences of one LoD level of a batch by their lengths, the longest first: the value of a variable of kind program.LoDRankTable. Sequences of one
// length keep their order. So the sequences that have a step t are the first ones, for every t. A step of a sequence is a row, or in a level that is not the innermost one
// a sequence of the level below.
type RankTable struct {
	Order   []int     // the sequences by rank
	Lengths []int64   // of the sequences in steps, by rank
	Offsets []int64   // of the sequences in the batch, in steps, in its order
	Outer   [][]int64 // offsets of the levels above, outermost first
	// Around orders the outermost sequences, where a step of another network has them; nil if they are records.
	Around *RankTable
}

// Set takes the offsets of a batch, of the levels down to that of the sequences; without a level the table has no sequence. It allocates nothing if it has held as many before.
func (r *RankTable) Set(lod [][]int64) {
	last, offsets := max(0, len(lod)-1), []int64(nil)
	if len(lod) > 0 {
		offsets = lod[last]
	}
	for len(r.Outer) < last {
		r.Outer = append(r.Outer, nil)
	}
	r.Outer = r.Outer[:last]
	for i := range r.Outer {
		r.Outer[i] = append(r.Outer[i][:0], lod[i]...)
	}
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

// Levels returns how many LoD levels the table knows: its own and those above.
func (r *RankTable) Levels() int { return len(r.Outer) + 1 }

// Steps returns the number of steps of all sequences.
func (r *RankTable) Steps() int64 {
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
