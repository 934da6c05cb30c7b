package dataset

import (
	"fmt"
	"iter"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Batcher decodes records into batches, in memory that it reuses. It serves one iteration at a time.
type Batcher struct {
	options BatchOptions
	part    Part // of the iteration
	most    int  // rows that a slot has room for
	slots   []slot
	next    int // slot of the coming batch
	rows    int // of the global batch in the making
	held    holder
	streams []tensor.Stream
}

// NewBatcher checks the options. Memory is allocated by the first iteration, and again only for one whose part has more rows.
func NewBatcher(options BatchOptions) (*Batcher, error) {
	if options.Slots == 0 {
		options.Slots = 1
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = 1 << 30
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	return &Batcher{options: options, slots: make([]slot, options.Slots)}, nil
}

// Batches yields a part of each batch that records make. Each record is checked against the fields when it is decoded; records of
// other parts are counted only. The first error is yielded, naming file and record, and ends the iteration.
func (b *Batcher) Batches(records iter.Seq2[Record, error], part Part) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := b.take(part); err != nil {
			yield(nil, err)
			return
		}
		b.begin()
		for record, err := range records {
			if err == nil {
				err = b.add(record)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if b.rows < b.options.Rows {
				continue
			}
			if batch, err := b.finish(); !yield(batch, err) || err != nil {
				return
			}
			b.begin()
		}
		if b.rows > 0 && !b.options.DropLast {
			yield(b.finish())
		}
	}
}

func (b *Batcher) begin() {
	b.rows = 0
	b.held.reset()
	batch := &b.slots[b.next].batch
	batch.Records = batch.Records[:0]
}

// add takes the next record of the global batch. How many rows that batch will have, and so which of them are this part's,
// is known only at its end: the records that can be are held until then. The whole batch needs no such wait.
func (b *Batcher) add(record Record) error {
	row := b.rows
	b.rows++
	if b.part.Of <= 1 {
		return b.decode(record, row)
	}
	if _, to := b.part.Rows(b.options.Rows); row < to {
		b.held.add(record)
	}
	return nil
}

// finish completes the batch of the current slot and moves to the next one.
func (b *Batcher) finish() (*Batch, error) {
	from, to := b.part.Rows(b.rows)
	if b.part.Of > 1 {
		for row := from; row < to; row++ {
			if err := b.decode(b.held.get(row), row-from); err != nil {
				return nil, err
			}
		}
	}
	s := &b.slots[b.next]
	b.next = (b.next + 1) % len(b.slots)
	s.batch.GlobalRows, s.batch.RowOffset = b.rows, from
	return &s.batch, s.setRows(to - from)
}

// decode writes a record's tensors into a row of the current slot.
func (b *Batcher) decode(record Record, row int) (err error) {
	if b.streams, err = ParseRecord(record.Bytes, b.streams); err != nil {
		return fault.Wrap(fault.KindOf(err), record.place(), err)
	}
	if len(b.streams) != len(b.options.Fields) {
		return fault.E(fault.ShapeMismatch, fault.At(record.place()), fault.Gotf("%d tensors", len(b.streams)),
			fault.Want(fmt.Sprint(len(b.options.Fields))))
	}
	s := &b.slots[b.next]
	for i, f := range b.options.Fields {
		stream := &b.streams[i]
		if wrong := f.check(stream); wrong != nil {
			wrong.Where, wrong.Variable = record.place(), f.label(i)
			return wrong
		}
		if err := stream.CopyInto(s.whole[i], row*stream.Len()); err != nil {
			return fault.E(fault.KindOf(err), fault.At(record.place()), fault.Var(f.label(i)), fault.Cause(err))
		}
	}
	s.batch.Records = appendRecord(s.batch.Records, record.Number)
	return nil
}
