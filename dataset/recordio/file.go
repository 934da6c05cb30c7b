package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"os"
	"sort"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
)

// A File is an open RecordIO file and its index.
type File struct {
	*Index
	file *os.File
}

// Open indexes the regular file at path. The caller closes it.
func Open(path string, limits Limits) (*File, error) {
	f, size, err := regularfile.Open(fault.Unavailable, path)
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

// Range returns a reader of count records from record first on. It is valid until the file is closed.
func (f *File) Range(first, count int64) (*RangeReader, error) {
	return NewRangeReader(f.file, f.Index, first, count)
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Scan yields the records of files in order. A record is valid until the next one. Scan yields the first error and ends.
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

// An Index lists the chunks of one file. It is immutable and may be shared.
type Index struct {
	Name   string // of the file, for errors
	Bytes  int64  // of the file
	Layout Layout // an empty file is Plain
	Chunks []Chunk
	limits Limits
}

// LoadIndex finds the chunks of a file of size bytes: from its footer, or from all headers for a layout without footer. It refuses a file that
// chunks do not fill exactly. It does not read payloads, so wrong record counts show only when somebody reads the records.
func LoadIndex(name string, r io.ReaderAt, size int64, limits Limits) (*Index, error) {
	x := &Index{Name: name, Bytes: size, Layout: Plain, limits: limits.withDefaults()}
	if size == 0 {
		return x, nil
	}
	var head [magicBytes]byte
	if size < magicBytes {
		return nil, cut(name, 0, size, magicBytes, "magic number")
	}
	if err := readFull(name, r, head[:], 0); err != nil {
		return nil, err
	}
	layout, ok := layoutOf(head[:])
	if !ok {
		return nil, corrupt(name, 0, fmt.Sprintf("magic number 0x%08x", binary.LittleEndian.Uint32(head[:])),
			"0x01020304 or \"EDLR\", as a record file begins")
	}
	x.Layout = layout
	if layout == Indexed {
		return x, x.readFooter(r)
	}
	return x, x.readHeaders(r)
}

// readHeaders fills the index of a file without a footer.
func (x *Index) readHeaders(r io.ReaderAt) error {
	var b [plainHeaderBytes]byte
	for offset := int64(0); offset < x.Bytes; offset = x.end() {
		if x.Bytes-offset < plainHeaderBytes {
			return cut(x.Name, offset, x.Bytes-offset, plainHeaderBytes, "chunk header")
		}
		if err := readFull(x.Name, r, b[:], offset); err != nil {
			return err
		}
		h, layout, err := parsePlain(b[:], x.Name, offset)
		if err != nil {
			return err
		}
		if offset == 0 {
			x.Layout = layout
		}
		if layout != x.Layout {
			return corrupt(x.Name, offset, fmt.Sprintf("a header of layout %v", layout), fmt.Sprintf("%v, as the chunks before", x.Layout))
		}
		if err := x.add(offset, h, x.Bytes-offset-plainHeaderBytes); err != nil {
			return err
		}
	}
	return nil
}

// add appends the chunk at an offset. behind is the number of bytes after its header.
func (x *Index) add(offset int64, h header, behind int64) error {
	if err := h.check(x.Layout, x.Name, offset, behind, x.limits); err != nil {
		return err
	}
	if len(x.Chunks) == x.limits.Chunks {
		return tooLarge(x.Name, offset, fmt.Sprintf("more than %d chunks", len(x.Chunks)), "no more")
	}
	x.Chunks = append(x.Chunks, Chunk{
		Offset: offset, FirstRecord: x.NumRecords(), Records: int64(h.records),
		StoredBytes: int64(h.stored), RawBytes: int64(h.raw), Compressor: h.compressor, checksum: h.checksum,
	})
	return nil
}

// end returns the offset of the next chunk.
func (x *Index) end() int64 {
	if len(x.Chunks) == 0 {
		return 0
	}
	last := x.Chunks[len(x.Chunks)-1]
	return last.Offset + x.Layout.headerBytes() + last.StoredBytes
}

// FooterBytes returns the size of the footer, 0 for a layout without one.
func (x *Index) FooterBytes() int64 { return x.Bytes - x.end() }

// NumRecords returns the number of records in the file.
func (x *Index) NumRecords() int64 {
	if len(x.Chunks) == 0 {
		return 0
	}
	last := x.Chunks[len(x.Chunks)-1]
	return last.FirstRecord + last.Records
}

// Fingerprint is a hash of the headers of all chunks. It differs between files with different records, because headers have the checksums of
// payloads.
func (x *Index) Fingerprint() uint64 {
	h := fnv.New64a()
	var b [32]byte
	for _, c := range x.Chunks {
		binary.LittleEndian.PutUint64(b[0:], uint64(c.Offset))
		binary.LittleEndian.PutUint64(b[8:], uint64(c.Records))
		binary.LittleEndian.PutUint64(b[16:], uint64(c.StoredBytes))
		binary.LittleEndian.PutUint32(b[24:], uint32(c.Compressor))
		binary.LittleEndian.PutUint32(b[28:], c.checksum)
		h.Write(b[:])
	}
	return h.Sum64()
}

// Locate returns the chunk of a record of the file, and the number of the record in this chunk.
func (x *Index) Locate(record int64) (chunk int, within int64, err error) {
	if record < 0 || record >= x.NumRecords() {
		return 0, 0, fault.E(fault.NotFound, fault.At(x.Name), fault.Gotf("record %d", record), fault.Wantf("a record in [0, %d)", x.NumRecords()))
	}
	chunk = sort.Search(len(x.Chunks), func(i int) bool { return x.Chunks[i].FirstRecord > record }) - 1
	return chunk, record - x.Chunks[chunk].FirstRecord, nil
}

// readFull fills b from byte offset of the file.
func readFull(name string, r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return cut(name, offset, int64(n), int64(len(b)), "file")
	}
	kind := fault.KindOf(err) // a remote store returns faults
	if kind == fault.Internal {
		kind = fault.Unavailable
	}
	return fault.Wrap(kind, place(name, offset), err)
}

// A Reader reads records of one file by their numbers. It keeps the chunk that it has read last: as long as the numbers ascend, it reads no chunk
// twice, and it never reads a chunk without a record that it was asked for. It is not safe for concurrent use. Several readers may share a file.
type Reader struct {
	chunkLoader
	first, end int64  // the records of the file that are loaded
	raw        []byte // of the chunk that is loaded
	rest       []byte // what is left of raw from record next on
	next       int64
}

// NewReader returns a reader of the records of an index. It reads nothing yet.
func NewReader(r io.ReaderAt, index *Index) *Reader {
	return &Reader{chunkLoader: chunkLoader{index: index, file: r}}
}

// Record returns a record of the file, which is valid until the next call.
func (r *Reader) Record(number int64) ([]byte, error) {
	if number < r.first || number >= r.end {
		if err := r.seek(number); err != nil {
			return nil, err
		}
	}
	if number < r.next {
		r.rest, r.next = r.raw, r.first
	}
	for ; r.next < number; r.next++ {
		_, r.rest = cutRecord(r.rest)
	}
	var record []byte
	record, r.rest = cutRecord(r.rest)
	r.next++
	return record, nil
}

// seek loads the chunk of a record.
func (r *Reader) seek(number int64) error {
	r.first, r.end = 0, 0 // load overwrites the chunk that is there
	i, _, err := r.index.Locate(number)
	if err != nil {
		return err
	}
	c := r.index.Chunks[i]
	if r.raw, err = r.load(c); err != nil {
		return err
	}
	r.first, r.end, r.next, r.rest = c.FirstRecord, c.FirstRecord+c.Records, c.FirstRecord, r.raw
	return nil
}

// A RangeReader reads consecutive records of one file, a chunk at a time. It is not safe for concurrent use. Several readers may share a file.
type RangeReader struct {
	records *Reader
	next    int64
	end     int64
	err     error // sticky
}

// NewRangeReader returns a reader of count records of the file from record first on. Both must be within the index.
func NewRangeReader(r io.ReaderAt, index *Index, first, count int64) (*RangeReader, error) {
	if first < 0 || count < 0 || first > index.NumRecords() || count > index.NumRecords()-first {
		return nil, fault.E(fault.InvalidArgument, fault.At(index.Name), fault.Gotf("%d records from record %d", count, first),
			fault.Wantf("records in [0, %d)", index.NumRecords()))
	}
	return &RangeReader{records: NewReader(r, index), next: first, end: first + count}, nil
}

// Next returns the next record, which is valid until the next call. After the last record it returns io.EOF. After any other error it returns that
// error again.
func (r *RangeReader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.next == r.end {
		return nil, io.EOF
	}
	var record []byte
	record, r.err = r.records.Record(r.next)
	r.next++
	return record, r.err
}
