package convert

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/edl-go/edl/fault"
)

// An idx file is a magic number (two zero bytes, element type 8 for uint8, rank), that many uint32 dims, big-endian, and
// the elements.
const idxUint8 = 0x0800

// idxHeader reads the header of an idx file of uint8 and returns its dims.
func idxHeader(r io.Reader, what string, rank int) ([]int64, error) {
	words := make([]byte, 4*(1+rank))
	if _, err := io.ReadFull(r, words); err != nil {
		return nil, idxError(err, what+" header")
	}
	if magic := binary.BigEndian.Uint32(words); magic != idxUint8|uint32(rank) {
		return nil, fault.E(fault.Corrupt, fault.At(what), fault.Gotf("magic number 0x%08x", magic), fault.Wantf("0x%08x", idxUint8|rank))
	}
	dims := make([]int64, rank)
	for i := range dims {
		dims[i] = int64(binary.BigEndian.Uint32(words[4*(i+1):]))
	}
	return dims, nil
}

// gunzip decompresses r if it is gzip, and passes it through if not.
func gunzip(r io.Reader, what string) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if head, _ := buffered.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, idxError(err, what)
	}
	return z, nil
}

// idxEnd reports bytes where the file should end. Reading to the end also checks the checksum of gzip.
func idxEnd(r io.Reader, what string) error {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	if err == nil {
		return fault.E(fault.Corrupt, fault.At(what), fault.Got("bytes behind the last element"), fault.Want("none"))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return idxError(err, what)
}

// idxError tells damage from errors of the reader underneath.
func idxError(err error, where string) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.E(fault.Corrupt, fault.At(where), fault.Cause(errCut))
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, new(flate.CorruptInputError)):
		return fault.Wrap(fault.Corrupt, where, err)
	default:
		return fault.Wrap(fault.Unavailable, where, err)
	}
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)
