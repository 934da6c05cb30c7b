package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
)

// The sum of a shard is the SHA-256 of the sums of its parts, one after the other: a sum of 32 bytes for each partBytes of the shard, the last of which may have
// fewer. So several cores compute it, and check it. Older manifests have the SHA-256 of the bytes themselves.
const partBytes = 1 << 20

// partSums sum parts up, on goroutines of their own, and on the one that gives the parts where these are behind. end must follow.
type partSums struct {
	parts chan numbered
	free  chan []byte    // room of partBytes, or nil: to be taken from rooms
	group sync.WaitGroup // of the goroutines
	next  int            // number of the next part

	mu   sync.Mutex
	sums [][sha256.Size]byte // by number
}

// rooms are those of writers that have ended. A server whose parameters are most of its heap would else have garbage of that size, before the collector begins: it makes
// a checkpoint every few rounds, and rounds make no garbage.
var rooms = sync.Pool{New: func() any { return new([partBytes]byte) }}

// A numbered part is to be summed up.
type numbered struct {
	number int
	part   []byte
}

// mostSummers bounds the goroutines: a disk is slower than so many.
const mostSummers = 3

// newPartSums leaves a core to whoever gives the parts.
func newPartSums() *partSums {
	n := min(max(1, runtime.GOMAXPROCS(0)-1), mostSummers)
	s := &partSums{parts: make(chan numbered, n+2), free: make(chan []byte, n+2)}
	for range cap(s.free) {
		s.free <- nil
	}
	for range n {
		s.group.Go(func() {
			for p := range s.parts {
				s.sum(p)
			}
		})
	}
	return s
}

// sum sums a part up, whose room is free then.
func (s *partSums) sum(p numbered) {
	sum := sha256.Sum256(p.part)
	s.mu.Lock()
	for len(s.sums) <= p.number {
		s.sums = append(s.sums, [sha256.Size]byte{})
	}
	s.sums[p.number] = sum
	s.mu.Unlock()
	s.free <- p.part[:cap(p.part)]
}

// room returns room for a part, empty. Where all is in use, it sums up a part itself.
func (s *partSums) room() []byte {
	var b []byte
	for found := false; !found; {
		select {
		case b = <-s.free:
			found = true
		default:
			select {
			case b = <-s.free:
				found = true
			case p := <-s.parts:
				s.sum(p)
			}
		}
	}
	if b == nil {
		b = rooms.Get().(*[partBytes]byte)[:]
	}
	return b[:0]
}

// give has the next part summed up, which is in a room and is not to be used any more.
func (s *partSums) give(part []byte) {
	s.parts <- numbered{s.next, part}
	s.next++
}

// end returns the sum of all. It may be called again.
func (s *partSums) end() []byte {
	if s.parts != nil {
		close(s.parts)
		for p := range s.parts {
			s.sum(p)
		}
		s.group.Wait()
		s.parts = nil
		close(s.free)
		for b := range s.free {
			if b != nil {
				rooms.Put((*[partBytes]byte)(b[:partBytes]))
			}
		}
	}
	whole := sha256.New()
	for _, sum := range s.sums {
		_, _ = whole.Write(sum[:]) // never fails
	}
	return whole.Sum(nil)
}

// sumOfParts is the sum of a shard that is read.
func sumOfParts(ctx context.Context, from io.Reader) (n int64, sum []byte, err error) {
	s := newPartSums()
	defer s.end()
	for err == nil {
		if cause := context.Cause(ctx); cause != nil {
			return n, nil, fault.E(fault.Canceled, fault.Cause(cause))
		}
		var got int
		part := s.room()[:partBytes]
		got, err = io.ReadFull(from, part)
		if n += int64(got); got > 0 {
			s.give(part[:got])
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, s.end(), err
}

// A summing writer sums up what it writes. It writes whole parts. end must follow.
type summing struct {
	to    io.Writer
	sums  *partSums
	part  []byte // that is being filled; nil: none
	bytes int64  // that were taken
	crc   uint32 // of those since the last call of endPiece
}

func newSumming(to io.Writer) *summing { return &summing{to: to, sums: newPartSums()} }

// room returns room for at least one byte and at most partBytes. What is filled in is to be taken.
func (s *summing) room() []byte {
	if s.part == nil {
		s.part = s.sums.room()
	}
	return s.part[len(s.part):partBytes]
}

// take takes n bytes that were filled in.
func (s *summing) take(n int) error {
	s.crc = crc32c.Update(s.crc, s.part[len(s.part):len(s.part)+n])
	s.part, s.bytes = s.part[:len(s.part)+n], s.bytes+int64(n)
	if len(s.part) < partBytes {
		return nil
	}
	return s.flush()
}

// flush writes the last part, which may be smaller than others. Nothing may be taken after it.
func (s *summing) flush() error {
	if len(s.part) == 0 {
		return nil
	}
	_, err := s.to.Write(s.part)
	s.sums.give(s.part)
	s.part = nil
	return err
}

// Write implements io.Writer.
func (s *summing) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		some := copy(s.room(), p[n:])
		err = s.take(some)
		n += some
	}
	return n, err
}

// endPiece returns the CRC-32C of what was taken since the last call.
func (s *summing) endPiece() uint32 {
	crc := s.crc
	s.crc = 0
	return crc
}

// end returns the sum of all that was flushed. It may be called again.
func (s *summing) end() []byte { return s.sums.end() }
