package dataplane

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stored is a connection whose peer has sent everything already, and reads later.
type stored struct {
	in  io.Reader
	out bytes.Buffer
}

var _ net.Conn = (*stored)(nil)

func (s *stored) Read(b []byte) (int, error)       { return s.in.Read(b) }
func (s *stored) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *stored) Close() error                     { return nil }
func (s *stored) LocalAddr() net.Addr              { return nil }
func (s *stored) RemoteAddr() net.Addr             { return nil }
func (s *stored) SetDeadline(time.Time) error      { return nil }
func (s *stored) SetReadDeadline(time.Time) error  { return nil }
func (s *stored) SetWriteDeadline(time.Time) error { return nil }

// written returns what do writes.
func written(t testing.TB, do func(*Conn) error) []byte {
	t.Helper()
	s := &stored{}
	if err := do(newConn(s)); err != nil {
		t.Fatal(err)
	}
	return s.out.Bytes()
}

// reading is a connection that reads b.
func reading(b []byte) *Conn { return newConn(&stored{in: bytes.NewReader(b)}) }

// tableOf makes a table of slices of so many bytes.
func tableOf(sizes ...int) Table {
	t := make(Table, len(sizes))
	for i, n := range sizes {
		t[i] = Slice{Name: fmt.Sprint("s", i), DType: tensor.UInt8, Dims: []int64{int64(n)}, Bytes: n}
	}
	return t
}

// valuesOf makes values of a table, all of them different.
func valuesOf(t Table) [][]byte {
	values, x := make([][]byte, len(t)), uint32(1)
	for i, s := range t {
		values[i] = make([]byte, s.Bytes)
		for j := range values[i] {
			x = x*1664525 + 1013904223
			values[i][j] = byte(x >> 24)
		}
	}
	return values
}

// all are the numbers of all slices of a table.
func all(t Table) []int {
	list := make([]int, len(t))
	for i := range list {
		list[i] = i
	}
	return list
}

// send writes values, in one call of WriteSlices for each list of slices.
func send(c *Conn, values [][]byte, lists ...[]int) error {
	for _, list := range lists {
		err := c.WriteSlices(Head{Kind: Data, Generation: 7, Round: 3, Rank: 1}, list, func(slice int) ([]byte, error) { return values[slice], nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// receive reads frames of slices until all are there, as a peer does.
func receive(c *Conn, t Table) (values [][]byte, heads []Head, err error) {
	p := NewProgress(t)
	values = make([][]byte, len(t))
	for i, s := range t {
		values[i] = make([]byte, s.Bytes)
	}
	for !p.Complete() {
		h, err := c.ReadHead()
		if err != nil {
			return nil, heads, err
		}
		heads = append(heads, h)
		parts, err := c.ReadParts(h, p)
		if err != nil {
			return nil, heads, err
		}
		for _, part := range parts {
			if err := c.Into(values[part.Slice][part.Offset : part.Offset+part.Length]); err != nil {
				return nil, heads, err
			}
		}
		if err := c.End(h); err != nil {
			return nil, heads, err
		}
	}
	return values, heads, nil
}

// frame is the bytes of a frame with any head and body. Its checksums are right.
func frame(h Head, body []byte) []byte {
	b := make([]byte, HeadBytes, HeadBytes+len(body))
	h.Body, h.bodySum = uint64(len(body)), sumOf(body)
	h.put(b)
	return append(b, body...)
}

// message is the bytes of a frame with a message.
func message(t testing.TB, h Head, m proto.Message) []byte {
	return written(t, func(c *Conn) error { return c.WriteMessage(h, m) })
}

// ports is a listener whose connections a test makes.
type ports struct {
	conns  chan net.Conn
	errs   chan error
	closed chan struct{}
}

func newPorts() *ports {
	return &ports{conns: make(chan net.Conn), errs: make(chan error), closed: make(chan struct{})}
}

func (p *ports) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case err := <-p.errs:
		return nil, err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close is not called twice at the same time.
func (p *ports) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *ports) Addr() net.Addr { return &net.TCPAddr{} }

// connect connects to the acceptor of the ports.
func (p *ports) connect() net.Conn {
	mine, its := pipe()
	p.conns <- its
	return mine
}

// pipe returns both ends of a connection without buffers, for tests in a bubble of synctest.
func pipe() (a, b net.Conn) {
	a, b = net.Pipe()
	return piped{a}, piped{b}
}

// piped is an end of a net.Pipe. It writes nothing without waiting for a reader, as sockets do.
type piped struct{ net.Conn }

func (p piped) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return p.Conn.Write(b)
}
