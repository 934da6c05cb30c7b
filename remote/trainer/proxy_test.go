package trainer

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/edl-go/edl/remote/internal/rig"
)

// proxy passes connections on to a server and cuts each of the first ones after it has carried a number of bytes.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	limits   []int64 // of the connections to come
	cut      int
}

func newProxy(t *testing.T, s *rig.Server, limits ...int64) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: s.Address, limits: limits}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.carry(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); group.Wait() })
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// carry passes bytes both ways until one end closes or the limit is reached.
func (p *proxy) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	left := int64(1) << 62
	if len(p.limits) > 0 {
		left, p.limits = p.limits[0], p.limits[1:]
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	var once sync.Once
	pass := func(w, r net.Conn) {
		defer once.Do(func() { from.Close(); to.Close() })
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Read(buffer)
			if err != nil && err != io.EOF || n == 0 {
				return
			}
			p.mu.Lock()
			reached := left >= 0 && left < int64(n)
			if left -= int64(n); reached {
				p.cut++
			}
			p.mu.Unlock()
			if reached {
				return
			}
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { pass(to, from) })
	both.Go(func() { pass(from, to) })
	both.Wait()
}
