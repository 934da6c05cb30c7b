package nn

import (
	"sort"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A batch says where the rows of a variable stand in the whole batch.
type batch struct {
	*ops.Step
	ranks *ops.RankTable // that orders the rows, or the outermost sequences; nil if they have the order of the batch
}

// batchOf returns the batch of the first variable of a slot.
func batchOf(b *ops.Binding, slot string) batch {
	name := b.Op().In(slot)
	if name == "" {
		name = b.Op().Out(slot)
	}
	return batch{b.Env.Step, b.Rank(name)}
}

// eachRun calls do with runs of the elements [from, till) of x, and with the place in the random stream of the first of each. Of rows that form sequences,
// the place follows from the number of the outermost sequence in the whole batch, and from the element within it: other sequences do not matter.
// So it does of the rows of a step that a rank table orders, each of which belongs to a sequence.
func eachRun(x *tensor.Tensor, of batch, from, till int, do func(at, end int, place uint64)) {
	width := 1
	if len(x.LoD()) > 0 && from < till {
		width = x.Len() / int(x.Dims()[0])
	}
	eachPlaceRun(x, x.Len(), width, of, from, till, do)
}

// eachDraw is eachRun, also for rows that data has chosen. How many of these other trainers have before those of this one is not known, unless they form sequences. So the place counts from
// the first record of the trainer: no two trainers draw the same numbers, and one with the whole batch draws what one machine does.
func eachDraw(x *tensor.Tensor, chosen bool, of batch, from, till int, do func(at, end int, place uint64)) {
	if chosen && len(x.LoD()) == 0 {
		do(from, till, uint64(of.RowOffset)<<32+uint64(from))
		return
	}
	eachRun(x, of, from, till, do)
}

// eachRowRun is eachRun for rows [from, till) of x, each of which has one place.
func eachRowRun(x *tensor.Tensor, of batch, from, till int, do func(at, end int, place uint64)) {
	eachPlaceRun(x, int(x.Dims()[0]), 1, of, from, till, do)
}

// eachPlaceRun is eachRun for n places, width for each row of x if it has a LoD.
func eachPlaceRun(x *tensor.Tensor, n, width int, of batch, from, till int, do func(at, end int, place uint64)) {
	lod := x.LoD()
	if from >= till {
		return
	}
	sequences := 0
	switch {
	case len(lod) > 0:
		sequences = len(lod[0]) - 1
	case of.ranks != nil && len(x.Dims()) > 0:
		sequences = int(x.Dims()[0])
	}
	ranked := of.ranks != nil && sequences > 0 && sequences <= len(of.ranks.Order)
	if len(lod) == 0 && !ranked {
		do(from, till, opkit.FirstPlace(x, n, of.Step)+uint64(from))
		return
	}
	start := func(sequence int) int {
		if len(lod) == 0 {
			return sequence * (n / sequences)
		}
		row := int64(sequence)
		for _, level := range lod {
			row = level[row]
		}
		return int(row) * width
	}
	s := sort.Search(sequences, func(i int) bool { return start(i+1) > from })
	for ; from < till && s < sequences; s++ {
		begin, end := start(s), min(start(s+1), till)
		if end <= from {
			continue
		}
		record, place := s, uint64(from-begin)
		if ranked {
			var within int
			record, within = of.ranks.Place(s)
			place += uint64(within) * uint64(start(s+1)-begin)
		}
		do(from, end, uint64(of.RowOffset+int64(record))<<32+place)
		from = end
	}
}
