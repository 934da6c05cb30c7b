package dataplane

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

// A Conn is one end of a connection of the data plane. One goroutine at a time writes, and one at a time reads. An error of any method leaves it
// unusable: then it must be closed.
type Conn struct {
	writer
	reader
	carrier Carrier // of a trainer's end; Auto at the end of a server

	mu     sync.Mutex
	bound  context.Context // of Bound; nil: none
	unbind func() bool     // ends the watch over it
}

func newConn(c net.Conn) *Conn {
	return &Conn{writer: writer{net: c}, reader: reader{in: bufio.NewReaderSize(c, readBuffer)}}
}

// Carrier says how the bytes travel that a trainer writes and reads. It is for the end of a trainer.
func (c *Conn) Carrier() Carrier { return c.carrier }

// Close ends the connection. It may be called at any time, by anyone, and again; it ends what reads or writes.
func (c *Conn) Close() error {
	c.Unbound()
	return c.net.Close()
}

// Free ends the connection, and gives back the memory that it shares. Only who uses the connection may call it, and nobody uses it afterwards.
func (c *Conn) Free() {
	_ = c.Close()
	if c.memory != nil {
		c.memory.free()
		c.memory, c.outgoing, c.incoming = nil, nil, nil
	}
}

// share makes the bytes of slices travel through memory: those of a table that are written, and those of a table that are read, which lie at these
// places.
func (c *Conn) share(m *region, writes, reads []int) {
	c.memory, c.outgoing, c.writes, c.incoming, c.reads = m, m.bytes, writes, m.bytes, reads
}

// growing says that slices of the table that is written get memory when they need it.
func (c *Conn) growing(t Table) {
	c.table, c.made = t, make([]int, len(t))
	for i, s := range t {
		c.made[i] = s.first()
	}
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
func broken(err error) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the connection has ended")
	case errors.Is(err, syscall.ETIMEDOUT): // see tune
		err = errors.New("the machine of the peer does not answer on this connection any more")
	}
	return fault.E(fault.Unavailable, fault.At("data connection"), fault.Cause(err))
}
