package dataplane

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// readBuffer holds heads and small slices. A larger part is read into place past the buffer, but for what the buffer has of it.
const readBuffer = 16 << 10

// A Conn is one end of a connection of the data plane. One goroutine at a time writes, and one at a time reads. An error of any method leaves it
// unusable: then it must be closed.
type Conn struct {
	net net.Conn
	in  *bufio.Reader

	mu     sync.Mutex
	bound  context.Context // of Bound; nil: none
	unbind func() bool     // ends the watch over it

	head [HeadBytes]byte // that is written; list and vector follow each other in one write
	list []byte
	vec  [][]byte

	got   [HeadBytes]byte // that is read
	entry [partBytes]byte
	waste []byte // what nobody wants is read here; nil before the first
	sum   uint32 // of the body so far
	left  uint64 // bytes of the body that were not read
	parts []Part
}

func newConn(c net.Conn) *Conn { return &Conn{net: c, in: bufio.NewReaderSize(c, readBuffer)} }

// Close ends the connection. It may be called at any time, by anyone, and again; it ends what reads or writes.
func (c *Conn) Close() error {
	c.Unbound()
	return c.net.Close()
}

// Bound ends what reads or writes when ctx ends, or at a time; the zero time is never. It holds until the next Bound, Unbound or Close.
func (c *Conn) Bound(ctx context.Context, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx != c.bound {
		c.unbound()
		c.bound = ctx
		c.unbind = context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.bound == ctx {
				_ = c.net.SetDeadline(past)
			}
		})
	}
	if ctx.Err() != nil {
		until = past
	}
	_ = c.net.SetDeadline(until)
}

// past is a deadline that ends everything at once.
var past = time.Unix(1, 0)

// Unbound lets ctx of Bound go: its end says nothing about the connection any more.
func (c *Conn) Unbound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unbound()
}

// unbound is Unbound with the lock held.
func (c *Conn) unbound() {
	if c.bound != nil {
		c.unbind()
		c.bound, c.unbind = nil, nil
	}
}

// WriteSlices sends slices in frames like h, each with as many parts as fit. memory returns the bytes of a slice; they must not change before
// WriteSlices returns. Without slices it sends one frame without parts. The last frame has the flag Last.
func (c *Conn) WriteSlices(h Head, slices []int, memory func(slice int) ([]byte, error)) error {
	next, offset := 0, 0 // of slices, and in that slice
	for {
		c.begin()
		body := 0
		for next < len(slices) && body < FrameBytes {
			b, err := memory(slices[next])
			if err != nil {
				return err
			}
			n := min(len(b)-offset, FrameBytes-body)
			c.list = binary.LittleEndian.AppendUint32(c.list, uint32(slices[next]))
			c.list = binary.LittleEndian.AppendUint32(c.list, uint32(n))
			c.list = binary.LittleEndian.AppendUint64(c.list, uint64(offset))
			if n > 0 {
				c.vec = append(c.vec, b[offset:offset+n])
			}
			body += n
			if offset += n; offset == len(b) {
				next, offset = next+1, 0
			}
		}
		h.Parts, h.Body = uint32(len(c.list)/partBytes), uint64(len(c.list)+body)
		if next == len(slices) {
			h.Flags |= Last
		}
		if err := c.flush(h); err != nil || next == len(slices) {
			return err
		}
	}
}

// WriteMessage sends one frame with m, which may be nil, as its body.
func (c *Conn) WriteMessage(h Head, m proto.Message) (err error) {
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
func (c *Conn) begin() {
	c.list = c.list[:0]
	c.vec = append(c.vec[:0], nil, nil)
}

// flush writes a frame in one gather write, where the carrier has that.
func (c *Conn) flush(h Head) error {
	h.bodySum = crc32.Checksum(c.list, castagnoli)
	for _, b := range c.vec[2:] {
		h.bodySum = crc32.Update(h.bodySum, castagnoli, b)
	}
	h.put(c.head[:])
	c.vec[0], c.vec[1] = c.head[:], c.list
	rest := net.Buffers(c.vec)
	_, err := rest.WriteTo(c.net)
	clear(c.vec) // tensors must not live on for it
	return c.broken(err)
}

// ReadHead waits for the next frame. A Fault is returned as the error that its sender has met. The body must be read before the next call.
func (c *Conn) ReadHead() (Head, error) {
	if _, err := io.ReadFull(c.in, c.got[:]); err != nil {
		return Head{}, c.broken(err)
	}
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
func (c *Conn) ReadMessage(h Head, m proto.Message) error {
	body := make([]byte, h.Body)
	if err := c.Into(body); err != nil {
		return err
	}
	if err := c.End(h); err != nil {
		return err
	}
	return fault.Wrap(fault.Corrupt, h.Kind.String(), proto.Unmarshal(body, m))
}

// ReadParts reads the list of a frame of slices, and notes it in progress. The caller reads the bytes of all parts then, in their order, with Into or
// Discard, and calls End. The list is good until the next call.
func (c *Conn) ReadParts(h Head, p *Progress) ([]Part, error) {
	if int(h.Parts) > len(p.table) {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d parts in a frame", h.Parts), fault.Wantf("at most %d", len(p.table)))
	}
	c.parts = c.parts[:0]
	entry, total := c.entry[:], uint64(0)
	for range h.Parts {
		if err := c.Into(entry); err != nil {
			return nil, err
		}
		part := Part{Slice: int(binary.LittleEndian.Uint32(entry)), Length: int(binary.LittleEndian.Uint32(entry[4:])),
			Offset: int(binary.LittleEndian.Uint64(entry[8:]))}
		if err := p.add(part); err != nil {
			return nil, c.refused(h, err)
		}
		total += uint64(part.Length)
		c.parts = append(c.parts, part)
	}
	if total != c.left {
		return nil, c.refused(h, fault.E(fault.Corrupt, fault.Gotf("parts of %d bytes in a body with %d", total, c.left), fault.Want("as many")))
	}
	return c.parts, nil
}

// refused is the error of a list that cannot be right. If it has changed on its way, which the checksum of the body tells, another try may help; else
// why says what is wrong with what the peer sends.
func (c *Conn) refused(h Head, why error) error {
	if err := c.Discard(int(c.left)); err != nil {
		return err
	}
	if err := c.End(h); err != nil {
		return err
	}
	return why
}

// Into reads the next bytes of a body into b.
func (c *Conn) Into(b []byte) error {
	if uint64(len(b)) > c.left {
		return fault.E(fault.Corrupt, fault.Gotf("a body with %d bytes left", c.left), fault.Wantf("%d", len(b)))
	}
	if _, err := io.ReadFull(c.in, b); err != nil {
		return c.broken(err)
	}
	c.sum = crc32.Update(c.sum, castagnoli, b)
	c.left -= uint64(len(b))
	return nil
}

// Discard reads the next n bytes of a body and forgets them.
func (c *Conn) Discard(n int) error {
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
func (c *Conn) End(h Head) error {
	if c.left > 0 {
		return fault.E(fault.Corrupt, fault.Gotf("%d bytes after the end of a frame %s", c.left, h.Kind), fault.Want("none"))
	}
	if c.sum != h.bodySum {
		return damaged("body")
	}
	return nil
}

// drainTime bounds how long the end of a connection waits for the peer to read why.
const drainTime = 5 * time.Second

// Fail tells the peer why the connection ends, and closes it when the peer has closed its end, at the latest after some seconds. The peer may be
// writing: what it writes is thrown away, because closing at once would take the reason from it.
func (c *Conn) Fail(why error) {
	defer c.Close()
	_ = c.net.SetDeadline(time.Now().Add(drainTime))
	if c.WriteMessage(Head{Kind: Fault}, wire.FailureOf(why)) != nil {
		return
	}
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c.net)
}

// broken is the error of a connection that has ended: another one may be opened.
func (c *Conn) broken(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the connection has ended")
	}
	return fault.E(fault.Unavailable, fault.At("data connection"), fault.Cause(err))
}
