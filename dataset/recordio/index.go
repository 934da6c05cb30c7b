package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sort"

	"github.com/edl-go/edl/fault"
)

// A Chunk is where one chunk of a file stands and what its header says.
type Chunk struct {
	Offset      int64 // of the header, in bytes from the start of the file
	FirstRecord int64 // number of its first record in the file
	Records     int64
	StoredBytes int64 // of the payload
	Compressor  Compressor
	checksum    uint32
}

// An Index lists the chunks of one file. It is immutable and may be shared.
type Index struct {
	Name   string // of the file, for errors
	Bytes  int64  // of the file
	Chunks []Chunk
	limits Limits
}

// LoadIndex reads the headers of a file of size bytes. It refuses a file whose chunks do not end exactly with it; what is
// in the payloads, and so whether record counts are true, shows when they are read.
func LoadIndex(name string, r io.ReaderAt, size int64, limits Limits) (*Index, error) {
	x := &Index{Name: name, Bytes: size, limits: limits.withDefaults()}
	var b [headerBytes]byte
	records := int64(0)
	for offset := int64(0); offset < size; {
		if size-offset < headerBytes {
			return nil, cut(name, offset, size-offset, headerBytes, "chunk header")
		}
		if err := readFull(name, r, b[:], offset); err != nil {
			return nil, err
		}
		h, err := parseHeader(b[:], name, offset)
		if err != nil {
			return nil, err
		}
		if err := h.check(name, offset, size-offset-headerBytes, x.limits); err != nil {
			return nil, err
		}
		x.Chunks = append(x.Chunks, Chunk{
			Offset: offset, FirstRecord: records, Records: int64(h.records),
			StoredBytes: int64(h.stored), Compressor: h.compressor, checksum: h.checksum,
		})
		records += int64(h.records)
		offset += headerBytes + int64(h.stored)
	}
	return x, nil
}

// NumRecords returns the number of records in the file.
func (x *Index) NumRecords() int64 {
	if len(x.Chunks) == 0 {
		return 0
	}
	last := x.Chunks[len(x.Chunks)-1]
	return last.FirstRecord + last.Records
}

// Fingerprint is a hash of what the headers of all chunks say. Files of other records differ in it, because headers have the checksums of
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

// Locate returns the chunk that holds a record of the file, and the record's number within it.
func (x *Index) Locate(record int64) (chunk int, within int64, err error) {
	if record < 0 || record >= x.NumRecords() {
		return 0, 0, &fault.Fault{
			Kind: fault.NotFound, Where: x.Name,
			Got: fmt.Sprintf("record %d", record), Want: fmt.Sprintf("a record in [0, %d)", x.NumRecords()),
		}
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
	return fault.Wrap(fault.Unavailable, place(name, offset), err)
}

func cut(name string, offset, got, want int64, what string) error {
	return &fault.Fault{
		Kind: fault.Corrupt, Where: place(name, offset), Err: errCut,
		Got: fmt.Sprintf("%d bytes of the %s", got, what), Want: fmt.Sprint(want),
	}
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)
