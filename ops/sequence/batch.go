package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/seqpool"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A batch is a slot whose rows form sequences.
type batch struct {
	op    *program.Op
	slot  string
	value *tensor.Tensor
	lod   *tensor.Tensor // whose offsets count: value, or a tensor with the same rows
	level int            // of the LoD
	n     int            // sequences
}

// batchIn returns the sequences of the innermost level of a slot.
func batchIn(b *ops.Binding, slot string) batch { return levelIn(b, slot, len(b.In(slot).LoD())-1) }

// levelIn returns the sequences of a level of a slot, none if the slot has no such level.
func levelIn(b *ops.Binding, slot string, level int) batch {
	value, n := b.In(slot), 0
	if lod := value.LoD(); level >= 0 && level < len(lod) {
		n = max(0, len(lod[level])-1)
	}
	return batch{op: b.Op(), slot: slot, value: value, lod: value, level: level, n: n}
}

// offsets returns the first row of each sequence, and the number of rows as the last element. It refuses a LoD that does not have the number of
// sequences of the bound kernel.
func (x batch) offsets() ([]int64, error) {
	return seqpool.Offsets(x.op, x.op.In(x.slot), x.lod, x.level, x.n)
}

// each is the loop that calls do with the number and the rows [from, to) of every sequence that has rows.
func (x batch) each(do func(sequence, from, to int)) ops.Loop {
	return ops.Loop{N: x.n, Apart: true, Run: func(_, first, end int) error {
		offsets, err := x.offsets()
		if err != nil {
			return err
		}
		for i := first; i < end; i++ {
			if from, to := int(offsets[i]), int(offsets[i+1]); from < to {
				do(i, from, to)
			}
		}
		return nil
	}}
}
