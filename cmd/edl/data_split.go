package main

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// heldBack passes records on to a training set and holds the last ones back for a test set. Their number is known, that of all records is
// not until the last one has come.
type heldBack struct {
	train, test *datasetFile
	held        [][]byte // a ring of the records that may be the last ones
	next        int      // place of the oldest one in a full ring
}

// Write implements dataset.RecordWriter.
func (h *heldBack) Write(record []byte) error {
	if cap(h.held) == 0 {
		return h.train.Write(record)
	}
	if len(h.held) < cap(h.held) {
		h.held = append(h.held, append([]byte(nil), record...))
		return nil
	}
	if err := h.train.Write(h.held[h.next]); err != nil {
		return err
	}
	h.held[h.next] = append(h.held[h.next][:0], record...)
	h.next = (h.next + 1) % len(h.held)
	return nil
}

// flush writes the test set.
func (h *heldBack) flush() error {
	if len(h.held) > 0 && h.train.records == 0 {
		return fault.E(fault.InvalidArgument, fault.At("--test"), fault.Gotf("%d, and %d records in all", cap(h.held), len(h.held)),
			fault.Want("fewer than there are, so that some are left to train with"))
	}
	for i := range h.held {
		if err := h.test.Write(h.held[(h.next+i)%len(h.held)]); err != nil {
			return err
		}
	}
	return nil
}

// maxHeld bounds the records that are held back in memory.
const maxHeld = 1 << 20

// writeSplit lets fill write the records of a file, of which all but the last test ones become the training set.
func (f *dataFlags) writeSplit(c *console, source string, test int, fill func(*heldBack) error) error {
	if test < 0 || test > maxHeld {
		return fault.E(fault.InvalidArgument, fault.At("--test"), fault.Got(fmt.Sprint(test)), fault.Wantf("0 to %d", maxHeld))
	}
	names := []string{trainSet}
	if test > 0 {
		names = append(names, testSet)
	}
	return f.writeDatasets(c, source, names, func(to []*datasetFile) error {
		h := &heldBack{train: to[0], held: make([][]byte, 0, test)}
		if test > 0 {
			h.test = to[1]
		}
		if err := fill(h); err != nil {
			return err
		}
		return h.flush()
	})
}
