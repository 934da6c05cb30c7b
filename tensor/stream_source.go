package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/edl-go/edl/fault"
)

// A source hands out the bytes of a stream in order, from a slice without copying, or from a reader.
type source struct {
	b      []byte    // what is left, when r is nil
	r      io.Reader // never read beyond what was asked for
	offset int64     // bytes handed out
}

// next returns the next n bytes. From a reader it allocates as bytes arrive, so that a length that lies costs no more than
// the bytes that are there.
func (s *source) next(n int64, what string) ([]byte, error) {
	if s.r == nil {
		if n > int64(len(s.b)) {
			return nil, s.cut(int64(len(s.b)), n, what)
		}
		b := s.b[:n:n]
		s.b, s.offset = s.b[n:], s.offset+n
		return b, nil
	}
	var buffer bytes.Buffer
	got, err := io.CopyN(&buffer, s.r, n)
	if err != nil {
		return nil, s.failed(err, got, n, what)
	}
	s.offset += n
	return buffer.Bytes(), nil
}

// version reads a version word and refuses all but the one that exists.
func (s *source) version(what string) error {
	at := s.offset
	b, err := s.next(4, what)
	if err != nil {
		return err
	}
	if v := binary.LittleEndian.Uint32(b); v != streamVersion {
		return fault.E(fault.Unsupported, fault.At(atByte(at)), fault.Gotf("%s %d", what, v), fault.Want(fmt.Sprint(streamVersion)))
	}
	return nil
}

// failed turns an error of the reader into a fault: the end of the bytes is damage, anything else is not.
func (s *source) failed(err error, got, want int64, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.cut(got, want, what)
	}
	return fault.Wrap(fault.Unavailable, atByte(s.offset+got), err)
}

func (s *source) cut(got, want int64, what string) error {
	return fault.E(fault.Corrupt, fault.At(atByte(s.offset)), fault.Cause(errCut), fault.Gotf("%d bytes of %s", got, what),
		fault.Want(fmt.Sprint(want)))
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)
