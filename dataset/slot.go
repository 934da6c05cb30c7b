package dataset

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A slot is the memory of one batch.
type slot struct {
	batch Batch
	whole []*tensor.Tensor // of Batcher.most rows; Batch.Tensors are their first rows
}

// take makes room for a part.
func (b *Batcher) take(part Part) error {
	if err := part.check(); err != nil {
		return err
	}
	b.part = part
	most := part.most(b.options.Rows)
	if most <= b.most {
		return nil
	}
	if err := b.options.fit(most); err != nil {
		return err
	}
	for i := range b.slots {
		s := &b.slots[i]
		s.whole = s.whole[:0]
		for _, f := range b.options.Fields {
			t, err := tensor.New(f.DType, append([]int64{int64(most)}, f.Dims...)...)
			if err != nil {
				return fault.Wrap(fault.KindOf(err), "batches", err)
			}
			s.whole = append(s.whole, t)
		}
		s.batch = Batch{Tensors: append([]*tensor.Tensor(nil), s.whole...), Rows: most}
	}
	b.most = most
	return nil
}

// setRows makes the batch's tensors views of the first rows of the slot.
func (s *slot) setRows(rows int) error {
	if s.batch.Rows == rows {
		return nil
	}
	s.batch.Rows = rows
	for i, t := range s.whole {
		view, err := t.Rows(0, int64(rows))
		if err != nil {
			return err
		}
		s.batch.Tensors[i] = view
	}
	return nil
}
