package recordio

import (
	"io"

	"github.com/edl-go/edl/fault"
)

// A RangeReader reads consecutive records of one file, a chunk at a time. It is not safe for concurrent use; any number of
// them may share a file.
type RangeReader struct {
	chunkLoader
	chunk int    // next to load
	skip  int64  // records of that chunk to pass over
	left  int64  // records to hand out
	raw   []byte // what is left of the loaded chunk
	err   error  // sticky
}

// NewRangeReader returns a reader of count records of the file from record first on. Both must be within the index.
func NewRangeReader(r io.ReaderAt, index *Index, first, count int64) (*RangeReader, error) {
	if first < 0 || count < 0 || first > index.NumRecords() || count > index.NumRecords()-first {
		return nil, fault.E(fault.InvalidArgument, fault.At(index.Name), fault.Gotf("%d records from record %d", count, first),
			fault.Wantf("records in [0, %d)", index.NumRecords()))
	}
	rr := &RangeReader{chunkLoader: chunkLoader{index: index, file: r}, left: count}
	if count > 0 {
		rr.chunk, rr.skip, rr.err = index.Locate(first)
	}
	return rr, rr.err
}

// Next returns the next record, valid until the following call, or io.EOF behind the last one. After any other error it
// returns that error again.
func (r *RangeReader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.left == 0 {
		return nil, io.EOF
	}
	if len(r.raw) == 0 {
		if r.raw, r.err = r.load(r.index.Chunks[r.chunk]); r.err != nil {
			return nil, r.err
		}
		for ; r.skip > 0; r.skip-- {
			_, r.raw = cutRecord(r.raw)
		}
		r.chunk++
	}
	var record []byte
	record, r.raw = cutRecord(r.raw)
	r.left--
	return record, nil
}
