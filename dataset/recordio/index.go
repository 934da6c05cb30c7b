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

// An Index lists the chunks of one file. It is immutable and may be shared.
type Index struct {
	Name   string // of the file, for errors
	Bytes  int64  // of the file
	Layout Layout // an empty file is Plain
	Chunks []Chunk
	limits Limits
}

// LoadIndex reads where the chunks of a file of size bytes are: from its footer, or from all headers where the layout has none. Chunks fill the
// file exactly, or it is refused; what is in the payloads, and so whether record counts are true, shows when they are read.
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

// add appends the chunk at an offset. behind is how many bytes there are behind its header.
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

// end returns where the next chunk begins.
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
	kind := fault.KindOf(err) // of a store that is not this machine
	if kind == fault.Internal {
		kind = fault.Unavailable
	}
	return fault.Wrap(kind, place(name, offset), err)
}
