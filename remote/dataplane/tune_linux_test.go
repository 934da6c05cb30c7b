package dataplane

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edl-go/edl/fault"
)

// deafen makes a connection take nothing that its peer sends, not even acknowledgements: so it is at the end of a firewall that has forgotten it.
func deafen(t *testing.T, c *Conn) {
	t.Helper()
	raw, err := c.net.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	err2 := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
}

// both opens a connection over TCP that may be silent for so long, and returns its ends.
func both(t *testing.T, silence time.Duration) (trainer, server *Conn) {
	t.Helper()
	a, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	a.Silence = silence
	serving(t, a)
	served := make(chan *Conn)
	o := offer(t, a, func(ctx context.Context, c *Conn) {
		served <- c
		<-ctx.Done()
	})
	d := Dialer{Carrier: TCP, Silence: silence}
	if trainer, err = d.Dial(t.Context(), a.Place(o.Token), Layout{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trainer.Close() })
	return trainer, <-served
}

// When one direction of a connection is lost without a word, both ends are told, whether they wait or write.
func TestSilentConnectionEnds(t *testing.T) {
	for _, c := range []struct {
		name                            string
		serverDeaf, writes, writerHears bool
	}{
		{"the trainer hears nothing, both wait", false, false, false},
		{"the server hears nothing, both wait", true, false, false},
		{"the trainer hears nothing, the server writes", false, true, true},
		{"the server hears nothing, the trainer writes", true, true, true},
		{"the trainer hears nothing and writes", false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			deaf, hearing := both(t, 2*time.Second)
			if c.serverDeaf {
				deaf, hearing = hearing, deaf
			}
			deafen(t, deaf)
			writer := deaf
			if c.writerHears {
				writer = hearing
			}
			if c.writes {
				if err := writer.WriteMessage(Head{Kind: Ack}, nil); err != nil {
					t.Fatal(err)
				}
			}
			told := make(chan error, 2)
			for _, end := range []*Conn{deaf, hearing} {
				go func() {
					_, err := end.ReadHead()
					for err == nil { // what was written
						_, err = end.ReadHead()
					}
					told <- err
				}()
			}
			var says string
			for range 2 {
				err := <-told
				if says += err.Error(); !errors.Is(err, fault.Unavailable) {
					t.Error(err)
				}
			}
			if !strings.Contains(says, "does not answer") {
				t.Errorf("nobody is told why: %s", says)
			}
		})
	}
}

// Both ends have the options that the silence asks for.
func TestOptionsOfSilence(t *testing.T) {
	for _, c := range []struct {
		silence               time.Duration
		idle, interval, count int
	}{{2 * time.Second, 1, 1, 1}, {3 * time.Second, 1, 1, 2}, {4 * time.Second, 1, 1, 3}, {5 * time.Second, 2, 1, 3}, {9 * time.Second, 6, 1, 3}} {
		trainer, server := both(t, c.silence)
		for name, end := range map[string]*Conn{"trainer": trainer, "server": server} {
			raw, err := end.net.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			for option, want := range map[int]int{unix.TCP_KEEPIDLE: c.idle, unix.TCP_KEEPINTVL: c.interval, unix.TCP_KEEPCNT: c.count,
				unix.TCP_USER_TIMEOUT: int(c.silence.Milliseconds())} {
				var got int
				err2 := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) })
				if got != want || errors.Join(err, err2) != nil {
					t.Errorf("%v, the end of the %s: option %d is %d, want %d (%v)", c.silence, name, option, got, want, errors.Join(err, err2))
				}
			}
		}
	}
}

// The sockets of both ends have buffers as large as the system gives, over TCP and over a unix socket.
func TestBuffers(t *testing.T) {
	limit := func(name string) int {
		b, err := os.ReadFile("/proc/sys/net/core/" + name)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		return 2 * min(n, socketBuffer) // the kernel counts its own needs
	}
	a := listening(t)
	for _, carrier := range []Carrier{TCP, Unix} {
		served := make(chan *Conn, 1)
		o := offer(t, a, func(ctx context.Context, c *Conn) {
			served <- c
			<-ctx.Done()
		})
		c, err := (&Dialer{Carrier: carrier}).Dial(t.Context(), a.Place(o.Token), Layout{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for name, end := range map[string]*Conn{"trainer": c, "server": <-served} {
			raw, err := end.net.(interface {
				SyscallConn() (syscall.RawConn, error)
			}).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			for option, want := range map[int]int{unix.SO_RCVBUF: limit("rmem_max"), unix.SO_SNDBUF: limit("wmem_max")} {
				var got int
				err2 := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option) })
				if got != want || errors.Join(err, err2) != nil {
					t.Errorf("%v, the end of the %s: option %d is %d, want %d (%v)", carrier, name, option, got, want, errors.Join(err, err2))
				}
			}
		}
	}
}
