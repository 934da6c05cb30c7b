package dataset

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/edl-go/edl/dataset/internal/interrupt"
)

// A Record is the bytes of one record and where they come from.
type Record struct {
	Number int64  // in the dataset
	File   string // path
	Bytes  []byte // valid until the iterator is asked for the next record
}

// Records yields records [from, to) of the dataset in order. The first error, also that of an ended ctx, is yielded and
// ends the iteration. Files are open only while they are read.
func (d *Dataset) Records(ctx context.Context, from, to int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		files := d.all()
		if from < 0 || to < from || to > records(files) {
			yield(Record{}, outside(from, to, records(files)))
			return
		}
		for from < to {
			f := files[fileOf(files, from)]
			end := min(to, f.end())
			if !d.sources.records(ctx, f, from, end, yield) {
				return
			}
			from = end
		}
	}
}

// records yields records [from, to) of the dataset, which are all in f, and reports whether the iteration goes on.
func (s *sources) records(ctx context.Context, f file, from, to int64, yield func(Record, error) bool) bool {
	r, opened, err := s.open(ctx, f.Index, from-f.first, to-from)
	if err != nil {
		yield(Record{}, err)
		return false
	}
	defer opened.Close()
	for number := from; err == nil; number++ {
		var record []byte
		if record, err = r.Next(); err != nil {
			break
		}
		if err = interrupt.Check(ctx, "dataset"); err == nil && !yield(Record{Number: number, File: f.Name, Bytes: record}, nil) {
			return false
		}
	}
	if !errors.Is(err, io.EOF) {
		yield(Record{}, err)
		return false
	}
	return true
}
