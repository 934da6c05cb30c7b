package recordio

import (
	"errors"
	"io"
	"iter"
	"os"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regular"
)

// A File is an open RecordIO file and its index.
type File struct {
	*Index
	file *os.File
}

// Open indexes the regular file at path. The caller closes it.
func Open(path string, limits Limits) (*File, error) {
	f, size, err := regular.Open(fault.Unavailable, path)
	if err != nil {
		return nil, err
	}
	index, err := LoadIndex(path, f, size, limits)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{Index: index, file: f}, nil
}

// OpenFile opens a regular file without reading it.
func OpenFile(path string) (*os.File, error) {
	f, _, err := regular.Open(fault.Unavailable, path)
	return f, err
}

// Range returns a reader of count records from record first on. It is of no use once the file is closed.
func (f *File) Range(first, count int64) (*RangeReader, error) {
	return NewRangeReader(f.file, f.Index, first, count)
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Scan yields the records of files in order. A record is valid until the next one. The first error is yielded and ends the
// scan.
func Scan(limits Limits, paths ...string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, path := range paths {
			if !scanFile(path, limits, yield) {
				return
			}
		}
	}
}

// scanFile reports whether the scan goes on.
func scanFile(path string, limits Limits, yield func([]byte, error) bool) bool {
	f, err := Open(path, limits)
	if err != nil {
		yield(nil, err)
		return false
	}
	defer f.Close()
	r, err := f.Range(0, f.NumRecords())
	for err == nil {
		var record []byte
		if record, err = r.Next(); err == nil && !yield(record, nil) {
			return false
		}
	}
	if !errors.Is(err, io.EOF) {
		yield(nil, err)
		return false
	}
	return true
}
