package sequence

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A spans is a slot of sequences that lie one after another, with a LoD, or that all have the same number of rows, of which so many count as another slot
// says.
type spans struct {
	batch
	length  *tensor.Tensor // the rows of each sequence that count; nil with a LoD
	counted string         // the slot of length
	longest int            // rows of each padded sequence
}

// spansIn binds a slot whose dims are [sequences, longest, ...] if the slot counted holds a variable.
func spansIn(b *ops.Binding, slot, counted string) spans {
	p := spans{batch: batchIn(b, slot), length: b.In(counted), counted: counted}
	if p.length != nil {
		dims := p.value.Dims()
		p.n, p.longest = int(dims[0]), int(dims[1])
	}
	return p
}

// starts returns the offsets of the sequences, nil if they are padded.
func (p spans) starts() ([]int64, error) {
	if p.length != nil {
		return nil, nil
	}
	return p.offsets()
}

// span returns the rows of a sequence that count.
func (p spans) span(starts []int64, sequence int) (from, to int, err error) {
	if p.length == nil {
		return int(starts[sequence]), int(starts[sequence+1]), nil
	}
	n := p.length.Int64s()[sequence]
	if n < 0 || n > int64(p.longest) {
		return 0, 0, fault.E(fault.InvalidArgument, fault.On(p.op), fault.Var(p.op.In(p.counted)), fault.Gotf("%d rows of sequence %d", n, sequence),
			fault.Wantf("0 to %d", p.longest))
	}
	from = sequence * p.longest
	return from, from + int(n), nil
}
