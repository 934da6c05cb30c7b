package trainer

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/dataplane"
)

// deafen makes a TCP connection take nothing that its peer sends, as behind a firewall that has forgotten it.
func deafen(c net.Conn) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	err2 := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	})
	return errors.Join(err, err2)
}

// A data connection on which nothing arrives any more, while both processes and all other connections are well, costs a step some seconds: another one is
// opened, and the values are those of a run that nothing disturbs. The deadline of the round is not reached.
func TestSilentConnectionIsReplaced(t *testing.T) {
	for _, at := range []string{"before writing data", "before writing declare"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			c, m := commOf(0, true, servers(t, 2, 1, true, 4)...), newModel(2, 4)
			var mu sync.Mutex
			opened, deaf := 0, false
			c.Data = &dataplane.Dialer{Carrier: dataplane.TCP, Silence: 2 * time.Second, Wrap: func(conn net.Conn) net.Conn {
				mu.Lock()
				defer mu.Unlock()
				opened++
				return &watchedConn{conn, func(when string, round uint64) {
					mu.Lock()
					defer mu.Unlock()
					if !deaf && round == 1 && strings.HasSuffix(when, at) {
						deaf = true
						if err := deafen(conn); err != nil {
							t.Error(err)
						}
					}
				}}
			}}
			if err := openOver(ctx, c, "tcp", 1); err != nil {
				t.Fatal(err)
			}
			defer c.Abort()
			for r := range uint64(3) {
				c.BeginStep(ops.Step{Rows: 1, Round: r}, 0, nil)
				m.fill(1)
				if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-float32(r+1))); err != nil {
					t.Fatal(err)
				}
			}
			if !deaf || opened != 3 {
				t.Errorf("deaf %v, %d connections were opened, want 3: one of two again", deaf, opened)
			}
		})
	}
}
