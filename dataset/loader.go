package dataset

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

// Records yields records [from, to) of the dataset in order. It yields the first error, also that of an ended ctx, and ends. Files are open only
// while it reads them.
func (d *Dataset) Records(ctx context.Context, from, to int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		l := d.Loader(ctx)
		defer l.Close() // a file that was only read has nothing to lose
		for record, err := range l.Records([]Range{{From: from, To: to}}) {
			if !yield(record, err) {
				return
			}
		}
	}
}

// A Loader reads records of a dataset by their numbers. It reads only chunks that hold such records. Between two calls it keeps one file open and the
// chunk that it has read last, so small batches of one chunk cost one read. It is not safe for concurrent use.
type Loader struct {
	ctx     context.Context
	data    *Dataset
	file    file             // that is open
	records *recordio.Reader // of file; nil when none is open
	closer  io.Closer

	expected int64 // the store knows what is read up to this record
}

// Loader returns a loader of the present and future files. It can be used until ctx ends. The caller closes it.
func (d *Dataset) Loader(ctx context.Context) *Loader { return &Loader{ctx: ctx, data: d} }

// Close closes the open file. The loader may be used again.
func (l *Loader) Close() error {
	if l.records == nil {
		return nil
	}
	l.records = nil
	return l.closer.Close()
}

// Records yields the records of a list in its order. It yields the first error, also that of an ended context, and ends. One iteration runs at a time.
func (l *Loader) Records(list []Range) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		l.expected = 0
		for i, r := range list {
			if err := l.check(r); err != nil {
				yield(Record{}, err)
				return
			}
			for number := r.From; number < r.To; number++ {
				record, err := l.record(number, list[i:])
				if !yield(record, err) || err != nil {
					return
				}
			}
		}
	}
}

func (l *Loader) check(r Range) error {
	if n := l.data.NumRecords(); r.From < 0 || r.To < r.From || r.To > n {
		return outside(r.From, r.To, n)
	}
	return nil
}

// record reads a record of list[0].
func (l *Loader) record(number int64, list []Range) (Record, error) {
	if err := interrupt.Check(l.ctx, "dataset"); err != nil {
		return Record{}, err
	}
	if l.records == nil || number < l.file.first || number >= l.file.end() {
		if err := l.open(number); err != nil {
			return Record{}, err
		}
		l.expected = number
	}
	if object, ok := l.closer.(expecter); ok && number >= l.expected {
		var end int64
		end, l.expected = l.run(number, list)
		object.Expect(end)
	}
	b, err := l.records.Record(number - l.file.first)
	if err != nil {
		return Record{}, l.replaced(err)
	}
	return Record{Number: number, File: l.file.Name, Bytes: b}, nil
}

// open opens the file of a record.
func (l *Loader) open(number int64) error {
	l.Close() // what was read of the file is right, even if this fails
	files := l.data.all()
	f := files[fileOf(files, number)]
	r, closer, err := l.data.sources.readerAt(l.ctx, f.Name, f.Bytes)
	if err != nil {
		return err
	}
	l.file, l.records, l.closer = f, recordio.NewReader(r, f.Index), closer
	return nil
}

// replaced tells a file that another one has replaced from one that is damaged: fault.InvalidArgument. The records of a damaged chunk may be left out; those of
// another file are not the ones that training began with.
func (l *Loader) replaced(damage error) error {
	if !errors.Is(damage, fault.Corrupt) {
		return damage
	}
	now, err := l.data.sources.index(l.ctx, l.file.Name, -1)
	if err != nil || now.Bytes == l.file.Bytes && now.Fingerprint() == l.file.Fingerprint() {
		return damage
	}
	otherSums := ""
	if now.NumRecords() == l.file.NumRecords() && now.Bytes == l.file.Bytes {
		otherSums = " and other checksums"
	}
	return fault.E(fault.InvalidArgument, fault.At(l.file.Name), fault.Gotf("another file than before, with %d records in %d bytes", now.NumRecords(), now.Bytes),
		fault.Wantf("the file as it was, with %d records in %d bytes%s", l.file.NumRecords(), l.file.Bytes, otherSums),
		fault.Hint("put the file back, or begin anew with the data as they are now"))
}

// An expecter is a file at a distance. Expect says that all bytes up to an offset will be read, so that one request can ask for all of them.
type expecter interface{ Expect(to int64) }

// run returns where the run of adjacent chunks ends that is read from a record on: the offset in the file, and the record of the dataset. The records of
// the list are read next, and the record lies in its first range.
func (l *Loader) run(number int64, list []Range) (offset, end int64) {
	chunk := -1 // the last one of the run
	for i, r := range list {
		from, to := max(number, r.From)-l.file.first, min(r.To-l.file.first, l.file.NumRecords())
		if from < 0 || from >= to || i > 0 && from < end {
			break
		}
		first, _, err := l.file.Locate(from)
		if err != nil || chunk >= 0 && first > chunk+1 {
			break
		}
		if chunk, _, err = l.file.Locate(to - 1); err != nil {
			break
		}
		end = to
	}
	if chunk < 0 {
		return 0, number
	}
	c := l.file.Index.Chunks[chunk]
	if offset = l.file.Bytes - l.file.FooterBytes(); chunk+1 < len(l.file.Index.Chunks) {
		offset = l.file.Index.Chunks[chunk+1].Offset
	}
	return offset, l.file.first + c.FirstRecord + c.Records
}
