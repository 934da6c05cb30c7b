package recordio

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"

	"github.com/edl-go/edl/fault"
)

// A Compressor is the way in which payloads are stored. Its numbers are those of the file format.
type Compressor uint32

const (
	None   Compressor = 0 // payloads as they are
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

// snappyBlock is the most that one frame of the snappy framing format holds when decompressed.
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

// A decompressor keeps what can be kept from chunk to chunk.
type decompressor struct {
	stored bytes.Reader
	snappy *s2.Reader
	gzip   *gzip.Reader
	raw    []byte
}

// errOverLimit is what decompress returns when the payload would exceed its limit.
var errOverLimit = errors.New("decompressed size over the limit")

// decompress returns the raw form of stored, which is at most limit bytes. The result is valid until the next call. It
// grows with what comes out, so a bomb costs no more than the limit.
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
