package dataplane

import (
	"encoding/binary"
	"net"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
)

// A writer writes frames.
type writer struct {
	net      net.Conn
	memory   *region // shared with the peer; nil: the bytes of slices are in the body of frames
	outgoing []byte  // of it; nil: there is none
	writes   []int   // where each slice lies in it
	table    Table   // of what is written; nil: all of the memory is there
	made     []int   // bytes of each slice that have memory

	head [HeadBytes]byte // of the frame; list and vector follow it in one write
	list []byte
	vec  [][]byte
	rest net.Buffers // of vec that is not written; a field, so that a frame makes no memory
}

// WriteSlices sends slices in frames like h, each with as many parts as fit. memory returns the bytes of a slice that travel; they must not change before
// WriteSlices returns. Without slices it sends one frame without parts. The last frame has the flag Last.
func (c *writer) WriteSlices(h Head, slices []int, memory func(slice int) ([]byte, error)) error {
	next, offset, most := 0, 0, FrameBytes // of slices, and in that slice
	if c.outgoing != nil {
		most = sharedBytes
	}
	for {
		c.begin()
		body := 0
		for next < len(slices) && body < most {
			b, err := memory(slices[next])
			if err != nil {
				return err
			}
			n := min(len(b)-offset, most-body)
			number := uint32(slices[next])
			if offset+n == len(b) {
				number |= endBit
			}
			c.list = binary.LittleEndian.AppendUint32(c.list, number)
			c.list = binary.LittleEndian.AppendUint32(c.list, uint32(n))
			c.list = binary.LittleEndian.AppendUint64(c.list, uint64(offset))
			switch {
			case n == 0:
			case c.outgoing != nil:
				if err := c.makeRoom(slices[next], offset+n); err != nil {
					return err
				}
				if place := c.outgoing[c.writes[slices[next]]:]; &place[0] != &b[0] { // else Place has given it out
					copy(place[offset:], b[offset:offset+n])
				}
			default:
				c.vec = append(c.vec, b[offset:offset+n])
			}
			body += n
			if offset += n; offset == len(b) {
				next, offset = next+1, 0
			}
		}
		h.Parts, h.Body = uint32(len(c.list)/partBytes), uint64(len(c.list)+body)
		if c.outgoing != nil {
			h.Body, h.Flags = uint64(len(c.list)), h.Flags|shared
		}
		if next == len(slices) {
			h.Flags |= Last
		}
		if err := c.flush(h); err != nil || next == len(slices) {
			return err
		}
	}
}

// makeRoom gives a slice memory for its first bytes up to end.
func (c *writer) makeRoom(slice, end int) error {
	if c.table == nil || end <= c.made[slice] {
		return nil
	}
	from := c.made[slice]
	to := min(max(end, 2*from), c.table[slice].Bytes)
	if err := c.memory.grow(c.writes[slice]+from, to-from); err != nil {
		return fault.E(fault.Unavailable, fault.At("data connection"), fault.Gotf("no shared memory for %d bytes of rows", end), fault.Cause(err))
	}
	c.made[slice] = to
	return nil
}

// Place returns where the bytes of a slice that is written lie in memory that the peer shares, or nil where there is none, or not yet. Whoever has made the bytes
// there gives the place to WriteSlices, which then copies nothing. The slice has so many bytes.
func (c *writer) Place(slice, bytes int) []byte {
	if c.outgoing == nil || c.table != nil && c.made[slice] < bytes {
		return nil
	}
	at := c.writes[slice]
	return c.outgoing[at : at+bytes : at+bytes]
}

// WriteMessage sends one frame with m, which may be nil, as its body.
func (c *writer) WriteMessage(h Head, m proto.Message) (err error) {
	c.begin()
	if m != nil {
		if c.list, err = (proto.MarshalOptions{}).MarshalAppend(c.list, m); err != nil {
			return fault.Wrap(fault.InvalidArgument, "message", err)
		}
	}
	h.Parts, h.Body = 0, uint64(len(c.list))
	return c.flush(h)
}

// begin begins a frame: the list is empty, and the places of head and list in the vector are kept.
func (c *writer) begin() {
	c.list = c.list[:0]
	c.vec = append(c.vec[:0], nil, nil)
}

// flush writes a frame in one gather write, where the carrier has that.
func (c *writer) flush(h Head) error {
	h.bodySum = crc32c.Checksum(c.list)
	for _, b := range c.vec[2:] {
		h.bodySum = crc32c.Update(h.bodySum, b)
	}
	h.put(c.head[:])
	c.vec[0], c.vec[1] = c.head[:], c.list
	c.rest = c.vec
	var err error
	if s, ok := c.net.(*secured); ok {
		err = s.writeFrame(c.rest)
	} else {
		_, err = c.rest.WriteTo(c.net)
	}
	clear(c.vec) // tensors must not live on for it
	return broken(err)
}
