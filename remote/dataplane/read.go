package dataplane

import (
	"bufio"
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// readBuffer holds heads and small slices. A larger part is read into place past the buffer, but for what the buffer has of it.
const readBuffer = 16 << 10

// readPiece is how many bytes are read before the checksum takes them, which are then still in the cache of the core.
const readPiece = 256 << 10

// A reader reads frames.
type reader struct {
	in       *bufio.Reader
	incoming []byte // memory for slices that the peer shares; nil: they are in the body
	reads    []int  // where each slice lies in it

	got   [HeadBytes]byte // head of the frame
	entry [partBytes]byte
	waste []byte // what nobody wants is read here; nil before the first
	sum   uint32 // of the body so far
	left  uint64 // bytes of the body that were not read
	parts []Part
}

// ReadHead waits for the next frame. A Fault is returned as the error that its sender has met. The body must be read before the next call.
func (c *reader) ReadHead() (Head, error) {
	if _, err := io.ReadFull(c.in, c.got[:]); err != nil {
		return Head{}, broken(err)
	}
	return c.parse()
}

// parse is ReadHead when the bytes are there.
func (c *reader) parse() (Head, error) {
	h, err := parseHead(c.got[:])
	if err != nil {
		return Head{}, err
	}
	c.sum, c.left = 0, h.Body
	if h.Kind == Fault {
		f := &job.Failure{}
		if err := c.ReadMessage(h, f); err != nil {
			return Head{}, err
		}
		return Head{}, wire.FaultOf(f)
	}
	return h, nil
}

// ReadMessage reads the body of a frame that has a message.
func (c *reader) ReadMessage(h Head, m proto.Message) error {
	body := make([]byte, h.Body)
	if err := c.Into(body); err != nil {
		return err
	}
	if err := c.End(h); err != nil {
		return err
	}
	return fault.Wrap(fault.Corrupt, h.Kind.String(), proto.Unmarshal(body, m))
}

// ReadParts reads the list of a frame of slices, and notes it in progress. The caller reads the bytes of all parts then, in their order, with ReadPart,
// and calls End. The list is good until the next call.
func (c *reader) ReadParts(h Head, p *Progress) ([]Part, error) {
	if int(h.Parts) > len(p.table) {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d parts in a frame", h.Parts), fault.Wantf("at most %d", len(p.table)))
	}
	c.parts = c.parts[:0]
	entry, total := c.entry[:], uint64(0)
	for range h.Parts {
		if err := c.Into(entry); err != nil {
			return nil, err
		}
		number := binary.LittleEndian.Uint32(entry)
		part := Part{Slice: int(number &^ endBit), End: number&endBit != 0, Length: int(binary.LittleEndian.Uint32(entry[4:])),
			Offset: int(binary.LittleEndian.Uint64(entry[8:]))}
		if err := p.add(part); err != nil {
			return nil, c.refused(h, err)
		}
		total += uint64(part.Length)
		c.parts = append(c.parts, part)
	}
	if c.incoming != nil {
		total = 0
	}
	if (h.Flags&shared != 0) != (c.incoming != nil) {
		return nil, fault.E(fault.Corrupt, fault.Gotf("a frame with flags %#x", h.Flags), fault.Want("the carrier that the connection was opened with"))
	}
	if total != c.left {
		return nil, c.refused(h, fault.E(fault.Corrupt, fault.Gotf("parts of %d bytes in a body with %d", total, c.left), fault.Want("as many")))
	}
	return c.parts, nil
}

// refused is the error of a list that cannot be right. If it has changed on its way, which the checksum of the body tells, another try may help; else
// why says what is wrong with what the peer sends.
func (c *reader) refused(h Head, why error) error {
	if err := c.Discard(int(c.left)); err != nil {
		return err
	}
	if err := c.End(h); err != nil {
		return err
	}
	return why
}

// ReadPart reads the bytes of a part into b, which has its length. A nil b forgets them.
func (c *reader) ReadPart(p Part, b []byte) error {
	switch {
	case b == nil && c.incoming != nil:
		return nil
	case b == nil:
		return c.Discard(p.Length)
	case c.incoming != nil: // whatever the peer does to it meanwhile, these are bytes of one of its slices
		copy(b, c.incoming[c.reads[p.Slice]+p.Offset:][:p.Length])
		return nil
	}
	return c.Into(b)
}

// Lent returns the memory that a slice of so many bytes travels in, until Free; nil if it travels in frames. The peer may write it at any time. An honest
// one has written what its frames name, and writes nothing more before the answer to its Declare. ReadPart into nil leaves the bytes there.
func (c *reader) Lent(slice, bytes int) []byte {
	if c.incoming == nil {
		return nil
	}
	at := c.reads[slice]
	return c.incoming[at : at+bytes : at+bytes]
}

// Into reads the next bytes of a body into b.
func (c *reader) Into(b []byte) error {
	if uint64(len(b)) > c.left {
		return fault.E(fault.Corrupt, fault.Gotf("a body with %d bytes left", c.left), fault.Wantf("%d", len(b)))
	}
	for len(b) > 0 {
		piece := b[:min(len(b), readPiece)]
		if _, err := io.ReadFull(c.in, piece); err != nil {
			return broken(err)
		}
		c.sum = crc32c.Update(c.sum, piece)
		c.left -= uint64(len(piece))
		b = b[len(piece):]
	}
	return nil
}

// Discard reads the next n bytes of a body and forgets them.
func (c *reader) Discard(n int) error {
	if c.waste == nil {
		c.waste = make([]byte, readBuffer)
	}
	for n > 0 {
		b := c.waste[:min(n, len(c.waste))]
		if err := c.Into(b); err != nil {
			return err
		}
		n -= len(b)
	}
	return nil
}

// End checks a body that was read whole.
func (c *reader) End(h Head) error {
	if c.left > 0 {
		return fault.E(fault.Corrupt, fault.Gotf("%d bytes after the end of a frame %s", c.left, h.Kind), fault.Want("none"))
	}
	if c.sum != h.bodySum {
		return damaged("body")
	}
	return nil
}
