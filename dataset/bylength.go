package dataset

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// ByLength is a RecordWriter that writes records of like length after each other: it sorts so many at a time by the number of rows of their longest sequence. Records of one length keep their order. Whoever
// reads batches of them in this order, or shuffles whole batches (Shuffling.Group), has sequences of like lengths in each: a network takes fewer steps for them, and trainers have equal work.
//
// It keeps the bytes of a window of records.
type ByLength struct {
	to      RecordWriter
	window  int
	records []sized
	streams []tensor.Stream
}

type sized struct {
	rows  int64
	bytes []byte
}

// NewByLength returns a writer to another one that sorts window records at a time, at least 1. The caller ends it with Flush.
func NewByLength(to RecordWriter, window int) (*ByLength, error) {
	if window < 1 {
		return nil, fault.E(fault.InvalidArgument, fault.At("records by length"), fault.Gotf("a window of %d", window), fault.Want("1 or more"))
	}
	return &ByLength{to: to, window: window}, nil
}

// Write takes a record, as AppendRecord makes it. A record without sequences has the length 0.
func (w *ByLength) Write(record []byte) (err error) {
	if w.streams, err = ParseRecord(record, w.streams); err != nil {
		return err
	}
	r := sized{bytes: slices.Clone(record)}
	for i := range w.streams {
		if s := &w.streams[i]; len(s.LoD) > 0 && len(s.Dims) > 0 {
			r.rows = max(r.rows, s.Dims[0])
		}
	}
	if w.records = append(w.records, r); len(w.records) == w.window {
		return w.Flush()
	}
	return nil
}

// Flush writes the records that it holds.
func (w *ByLength) Flush() error {
	slices.SortStableFunc(w.records, func(a, b sized) int { return int(a.rows - b.rows) })
	for _, r := range w.records {
		if err := w.to.Write(r.bytes); err != nil {
			return err
		}
	}
	clear(w.records)
	w.records = w.records[:0]
	return nil
}
