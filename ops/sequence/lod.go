package sequence

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A batch is a slot whose rows form sequences.
type batch struct {
	op    *program.Op
	slot  string
	value *tensor.Tensor
	n     int // sequences
}

func batchIn(b *ops.Binding, slot string) batch {
	value := b.In(slot)
	n := 0
	if lod := value.LoD(); len(lod) > 0 {
		n = max(0, len(lod[len(lod)-1])-1)
	}
	return batch{op: b.Op(), slot: slot, value: value, n: n}
}

// offsets returns where each sequence begins, and behind them the number of rows. It refuses a LoD that does not cut the rows into as many
// sequences as the kernel was bound for.
func (x batch) offsets() ([]int64, error) {
	err := x.value.CheckLoD()
	lod := x.value.LoD()
	switch {
	case err != nil:
	case len(lod) == 0:
		err = fault.E(fault.InvalidArgument, fault.Got("no LoD"), fault.Want("rows that are cut into sequences"))
	case len(lod[len(lod)-1]) != x.n+1:
		err = fault.E(fault.ShapeMismatch, fault.Got("another number of sequences"), fault.Want("as many as the plan was made for"))
	default:
		return lod[len(lod)-1], nil
	}
	var f *fault.Fault
	errors.As(err, &f)
	c := *f
	c.Op, c.Variable, c.Line = x.op.Type, x.op.In(x.slot), x.op.Line()
	return nil, &c
}
