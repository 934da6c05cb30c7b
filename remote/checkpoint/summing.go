package checkpoint

import (
	"crypto/sha256"
	"hash"
	"io"

	"github.com/edl-go/edl/internal/crc32c"
)

// A summing writer sums up what it writes, on a goroutine of its own, which takes as long as writing. end must follow.
type summing struct {
	to    io.Writer
	bytes int64         // that are written
	parts chan []byte   // to be summed; nil: a piece ends
	crcs  chan uint32   // of pieces
	free  chan []byte   // room of writeBytes
	ended chan struct{} // closed when all is summed
	whole hash.Hash
}

// summingRooms is how many blocks are read, written and summed at the same time.
const summingRooms = 3

func newSumming(to io.Writer) *summing {
	s := &summing{to: to, parts: make(chan []byte, summingRooms), crcs: make(chan uint32, 1), free: make(chan []byte, summingRooms), ended: make(chan struct{}),
		whole: sha256.New()}
	for range summingRooms {
		s.free <- nil // made when it is needed
	}
	go s.sum()
	return s
}

// sum sums what was written until there is no more.
func (s *summing) sum() {
	defer close(s.ended)
	crc := uint32(0)
	for part := range s.parts {
		if part == nil {
			s.crcs <- crc
			crc = 0
			continue
		}
		crc = crc32c.Update(crc, part)
		_, _ = s.whole.Write(part) // never fails
		s.free <- part[:cap(part)]
	}
}

// room returns room of writeBytes, which is to be given.
func (s *summing) room() []byte {
	b := <-s.free
	if b == nil {
		b = make([]byte, writeBytes)
	}
	return b
}

// give writes b, which is the begin of a room and belongs to the writer from then on.
func (s *summing) give(b []byte) error {
	n, err := s.to.Write(b)
	s.bytes += int64(n)
	s.parts <- b
	return err
}

// Write implements io.Writer.
func (s *summing) Write(p []byte) (n int, err error) {
	for n < len(p) {
		b := s.room()
		b = b[:copy(b, p[n:])]
		if err := s.give(b); err != nil {
			return n, err
		}
		n += len(b)
	}
	return n, nil
}

// endPiece returns the CRC-32C of what was written since the last call.
func (s *summing) endPiece() uint32 {
	s.parts <- nil
	return <-s.crcs
}

// end returns the SHA-256 of all. It may be called again.
func (s *summing) end() []byte {
	if s.parts != nil {
		close(s.parts)
		<-s.ended
		s.parts = nil
	}
	return s.whole.Sum(nil)
}
