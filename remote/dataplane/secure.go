package dataplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

const (
	// sealedBuffer holds records of TLS, of at most 16 KB each, so that one system call carries many of them.
	sealedBuffer = 256 << 10
	openBuffer   = 128 << 10 // the same of records that are read
)

// A secured connection is TCP under TLS. It writes a frame as a whole, and not record by record.
type secured struct {
	*tls.Conn
	under *records
}

// secure puts TLS on a connection by one of its ends, tls.Client or tls.Server, after the handshake. Deadlines of the connection, and ctx, bound that.
func secure(ctx context.Context, c net.Conn, end func(net.Conn, *tls.Config) *tls.Conn, cfg *tls.Config) (*secured, error) {
	cfg = cfg.Clone()
	cfg.DynamicRecordSizingDisabled = true // records of 16 KB from the first on: nobody waits for a part of a frame
	under := &records{Conn: c, in: bufio.NewReaderSize(c, openBuffer)}
	s := &secured{Conn: end(under, cfg), under: under}
	return s, s.HandshakeContext(ctx)
}

// writeFrame writes the parts of a frame. The records of TLS gather until the frame is whole.
func (s *secured) writeFrame(parts net.Buffers) error {
	s.under.gather()
	for _, b := range parts {
		if len(b) == 0 {
			continue
		}
		if _, err := s.Conn.Write(b); err != nil {
			return err
		}
	}
	return s.under.flush()
}

// records is what lies under TLS. TLS writes from the goroutine that writes frames, and from the one that reads them when the peer asks for something.
type records struct {
	net.Conn
	in *bufio.Reader

	mu        sync.Mutex
	gathering bool
	out       []byte
}

// Read implements net.Conn.
func (r *records) Read(b []byte) (int, error) { return r.in.Read(b) }

// Write implements net.Conn. What it gathers is written by flush, or when the buffer is full.
func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gathering {
		return r.Conn.Write(b)
	}
	if len(r.out)+len(b) > sealedBuffer {
		if err := r.send(); err != nil {
			return 0, err
		}
	}
	if r.out == nil {
		r.out = make([]byte, 0, sealedBuffer)
	}
	r.out = append(r.out, b...)
	return len(b), nil
}

// gather makes Write gather until flush.
func (r *records) gather() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gathering = true
}

// flush writes what Write has gathered.
func (r *records) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gathering = false
	return r.send()
}

// send is flush with the lock held.
func (r *records) send() error {
	_, err := r.Conn.Write(r.out)
	r.out = r.out[:0]
	return err
}
