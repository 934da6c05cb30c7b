package recordio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
)

// A Chunk is the place of one chunk in a file, and the content of its header.
type Chunk struct {
	Offset      int64 // of the header, in bytes from the start of the file
	FirstRecord int64 // number of its first record in the file
	Records     int64
	StoredBytes int64 // of the payload
	RawBytes    int64 // of the payload when decompressed; 0 for layouts without this number
	Compressor  Compressor
	checksum    uint32
}

func (c Chunk) header() header {
	return header{checksum: c.checksum, compressor: c.Compressor, stored: uint32(c.StoredBytes), records: uint32(c.Records), raw: uint32(c.RawBytes)}
}

// A chunkLoader reads chunks of one file, one at a time, and keeps its memory.
type chunkLoader struct {
	index  *Index
	file   io.ReaderAt
	stored []byte
	decompressor
}

// load returns the raw payload of a chunk. Every record in it is sound. It is valid until the next load.
func (l *chunkLoader) load(c Chunk) ([]byte, error) {
	stored, err := l.read(c)
	if err != nil {
		return nil, err
	}
	limit := l.index.limits.maxRaw(c.StoredBytes)
	if l.index.Layout == Indexed {
		limit = c.RawBytes
	}
	raw, err := l.decompress(c.Compressor, stored, limit)
	if errors.Is(err, errOverLimit) {
		return nil, tooLarge(l.index.Name, c.Offset,
			fmt.Sprintf("a chunk of %d bytes that holds more when decompressed", c.StoredBytes), fmt.Sprintf("at most %d", limit))
	}
	if err != nil {
		return nil, fault.E(fault.Corrupt, fault.At(place(l.index.Name, c.Offset)), fault.Got("a damaged "+c.Compressor.String()+" payload"),
			fault.Cause(err))
	}
	if l.index.Layout == Indexed && int64(len(raw)) != c.RawBytes {
		return nil, corrupt(l.index.Name, c.Offset, fmt.Sprintf("a chunk that holds %d bytes when decompressed", len(raw)), fmt.Sprint(c.RawBytes))
	}
	return raw, l.check(c, raw)
}

// read returns the payload of a chunk as stored. It has checked the checksum, and for a file with a footer the header against the footer.
func (l *chunkLoader) read(c Chunk) ([]byte, error) {
	layout := l.index.Layout
	begin := c.Offset + layout.headerBytes() // of the bytes to read
	if layout == Indexed {
		begin = c.Offset
	}
	size := c.Offset + layout.headerBytes() + c.StoredBytes - begin
	if int64(cap(l.stored)) < size {
		l.stored = make([]byte, size)
	}
	l.stored = l.stored[:size]
	if err := readFull(l.index.Name, l.file, l.stored, begin); err != nil {
		return nil, err
	}
	if layout == Indexed {
		return l.stored[indexedHeaderBytes:], l.checkIndexed(c)
	}
	if sum := crc32.ChecksumIEEE(l.stored); sum != c.checksum {
		return nil, l.wrongChecksum(c, sum)
	}
	return l.stored, nil
}

// checkIndexed compares a chunk with its entry in the footer.
func (l *chunkLoader) checkIndexed(c Chunk) error {
	if word := binary.LittleEndian.Uint32(l.stored); word != chunkMagic {
		return wrongMagic(l.index.Name, c.Offset, word, chunkMagic)
	}
	if h := parseIndexed(l.stored[magicBytes:]); h != c.header() {
		return corrupt(l.index.Name, c.Offset, "a header that differs from the footer", "the header that was written with the footer")
	}
	if sum := indexedChecksum(l.stored); sum != c.checksum {
		return l.wrongChecksum(c, sum)
	}
	return nil
}

func (l *chunkLoader) wrongChecksum(c Chunk, sum uint32) error {
	return corrupt(l.index.Name, c.Offset, fmt.Sprintf("a chunk with checksum 0x%08x", sum), fmt.Sprintf("0x%08x", c.checksum))
}

// check walks the records of a payload. Their number must be that of the header, and they must fill the payload exactly.
func (l *chunkLoader) check(c Chunk, raw []byte) error {
	at := 0
	for i := range c.Records {
		left := len(raw) - at
		if left < lengthBytes {
			return corrupt(l.index.Name, c.Offset, fmt.Sprintf("%d records in a chunk", i), fmt.Sprint(c.Records))
		}
		length := binary.LittleEndian.Uint32(raw[at:])
		if int64(length) > int64(left-lengthBytes) {
			return corrupt(l.index.Name, c.Offset, fmt.Sprintf("record %d of the chunk with %d bytes", i, length),
				fmt.Sprintf("at most the %d that are left", left-lengthBytes))
		}
		if int64(length) > int64(l.index.limits.RecordBytes) {
			return tooLarge(l.index.Name, c.Offset, fmt.Sprintf("record %d of the chunk with %d bytes", i, length),
				fmt.Sprintf("at most %d", l.index.limits.RecordBytes))
		}
		at += lengthBytes + int(length)
	}
	if at != len(raw) {
		return corrupt(l.index.Name, c.Offset, fmt.Sprintf("%d bytes behind the last of %d records", len(raw)-at, c.Records), "none")
	}
	return nil
}

// cutRecord splits the first record from a checked payload.
func cutRecord(raw []byte) (record, rest []byte) {
	end := lengthBytes + int(binary.LittleEndian.Uint32(raw))
	return raw[lengthBytes:end:end], raw[end:]
}

// A Compressor says how payloads are stored. Its numbers are those of the file format.
type Compressor uint32

const (
	None   Compressor = 0 // uncompressed
	Snappy Compressor = 1 // framing format
	Gzip   Compressor = 2 // RFC 1952
)

// String returns the name that commands and errors use.
func (c Compressor) String() string {
	switch c {
	case None:
		return "none"
	case Snappy:
		return "snappy"
	case Gzip:
		return "gzip"
	default:
		return fmt.Sprintf("compressor(%d)", uint32(c))
	}
}

// ParseCompressor is the inverse of String.
func ParseCompressor(name string) (Compressor, error) {
	for c := None; c <= Gzip; c++ {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fault.E(fault.InvalidArgument, fault.Got("compressor "+fault.Quote(name)), fault.Want("none, snappy or gzip"))
}

// snappyBlock is the decompressed size of the largest frame of the snappy framing format.
const snappyBlock = 64 << 10

// compress appends the stored form of raw to dst.
func (c Compressor) compress(dst *bytes.Buffer, raw []byte) error {
	var w io.WriteCloser
	switch c {
	case Snappy:
		w = s2.NewWriter(dst, s2.WriterSnappyCompat(), s2.WriterConcurrency(1))
	case Gzip:
		w = gzip.NewWriter(dst)
	default:
		dst.Write(raw)
		return nil
	}
	if _, err := w.Write(raw); err != nil {
		return err
	}
	return w.Close()
}

// A decompressor keeps memory from chunk to chunk.
type decompressor struct {
	stored bytes.Reader
	snappy *s2.Reader
	gzip   *gzip.Reader
	raw    []byte
}

// errOverLimit is the error of decompress for a payload above its limit.
var errOverLimit = errors.New("decompressed size over the limit")

// decompress returns the raw form of stored, of at most limit bytes. The result is valid until the next call. It grows with the output, so a
// decompression bomb costs no more than the limit.
func (d *decompressor) decompress(c Compressor, stored []byte, limit int64) ([]byte, error) {
	if c == None {
		if int64(len(stored)) > limit {
			return nil, errOverLimit
		}
		return stored, nil
	}
	r, err := d.open(c, stored)
	if err != nil {
		return nil, err
	}
	d.raw = d.raw[:0]
	for {
		if len(d.raw) == cap(d.raw) {
			d.raw = append(d.raw, 0)[:len(d.raw)]
		}
		room := d.raw[len(d.raw):cap(d.raw)]
		if left := limit + 1 - int64(len(d.raw)); int64(len(room)) > left {
			room = room[:left]
		}
		n, err := r.Read(room)
		d.raw = d.raw[:len(d.raw)+n]
		if int64(len(d.raw)) > limit {
			return nil, errOverLimit
		}
		if errors.Is(err, io.EOF) {
			return d.raw, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (d *decompressor) open(c Compressor, stored []byte) (io.Reader, error) {
	d.stored.Reset(stored)
	if c == Gzip {
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		return d.gzip, d.gzip.Reset(&d.stored)
	}
	if d.snappy == nil {
		d.snappy = s2.NewReader(nil, s2.ReaderMaxBlockSize(snappyBlock))
	}
	d.snappy.Reset(&d.stored)
	return d.snappy, nil
}
