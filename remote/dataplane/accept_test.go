package dataplane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
)

// listening serves an Acceptor over TCP until the test ends.
func listening(t *testing.T) *Acceptor {
	t.Helper()
	a, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	serving(t, a)
	return a
}

// serving runs Serve until stop is called, or the test ends.
func serving(t *testing.T, a *Acceptor) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if cancel(); !stopped.Swap(true) {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// acceptor is an Acceptor on connections that a test makes.
func acceptor(p *ports) *Acceptor {
	return &Acceptor{port: p, offers: map[Token]*Offer{}, conns: map[net.Conn]bool{}}
}

// echo serves a connection: it answers every frame with its head, until the connection ends.
func echo(_ context.Context, c *Conn) {
	for {
		h, err := c.ReadHead()
		if err != nil || c.WriteMessage(h, nil) != nil {
			return
		}
	}
}

// answers checks that a connection that echo serves answers.
func answers(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.WriteMessage(Head{Kind: Declare, Round: 9}, nil); err != nil {
		t.Error(err)
	}
	if h, err := c.ReadHead(); err != nil || h.Round != 9 {
		t.Errorf("%+v, %v", h, err)
	}
}

// known is how many offers are open.
func known(a *Acceptor) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.offers)
}

func offer(t *testing.T, a *Acceptor, serve func(context.Context, *Conn)) *Offer {
	t.Helper()
	o, err := a.Offer(Layout{}, serve)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func dial(t *testing.T, a *Acceptor, token []byte) (*Conn, error) {
	t.Helper()
	c, err := (&Dialer{}).Dial(t.Context(), Place{Address: a.Address(), Token: token}, Layout{})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// refused checks that a token is not admitted, and that another one may help.
func refused(t *testing.T, a *Acceptor, token []byte) {
	t.Helper()
	if _, err := dial(t, a, token); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "token") {
		t.Errorf("the connection is told %v", err)
	}
}

// A token admits one connection, while its offer is open.
func TestTokens(t *testing.T) {
	a := listening(t)
	ended := make(chan error, 1)
	o := offer(t, a, func(ctx context.Context, c *Conn) { echo(ctx, c); ended <- ctx.Err() })
	other := offer(t, a, echo)
	if o.Token == other.Token {
		t.Error("two offers have one token")
	}
	c, err := dial(t, a, o.Token[:])
	if err != nil {
		t.Fatal(err)
	}
	refused(t, a, o.Token[:])
	answers(t, c) // the one that came first goes on
	unknown := other.Token
	unknown[15] ^= 1
	refused(t, a, unknown[:])
	o.Close()
	o.Close()
	if _, err := c.ReadHead(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a connection whose offer was taken back: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the context of the connection has not ended")
	}
	refused(t, a, o.Token[:])
	other.Close()
	refused(t, a, other.Token[:])
	for _, token := range [][]byte{nil, make([]byte, tokenBytes-1), make([]byte, tokenBytes+1)} {
		if _, err := dial(t, a, token); !errors.Is(err, fault.Corrupt) {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
	}
}

// When serve returns, the connection is closed and its token is not known any more.
func TestEndOfServe(t *testing.T) {
	a := listening(t)
	o := offer(t, a, func(context.Context, *Conn) {})
	c, err := dial(t, a, o.Token[:])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadHead(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if n := known(a); n > 0 {
		t.Errorf("%d offers are left", n)
	}
}

// The end of an Acceptor ends its connections, whatever they do, and Serve returns when nothing serves them any more.
func TestEndOfAcceptor(t *testing.T) {
	a, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	stop := serving(t, a)
	var serving atomic.Int32
	entered := make(chan struct{})
	for _, do := range []func(ctx context.Context, c *Conn){
		func(_ context.Context, c *Conn) { _, _ = c.ReadHead() },
		func(_ context.Context, c *Conn) { _ = send(c, [][]byte{make([]byte, 64<<20)}, []int{0}) }, // nobody reads it
		func(ctx context.Context, _ *Conn) { <-ctx.Done() },
	} {
		o := offer(t, a, func(ctx context.Context, c *Conn) {
			serving.Add(1)
			defer serving.Add(-1)
			entered <- struct{}{}
			do(ctx, c)
		})
		if _, err := dial(t, a, o.Token[:]); err != nil {
			t.Fatal(err)
		}
		<-entered
	}
	unclaimed := offer(t, a, echo)
	silent, err := net.Dial("tcp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stop()
	if n := serving.Load(); n > 0 {
		t.Errorf("%d connections are served after the end", n)
	}
	if _, err := a.Offer(Layout{}, echo); !errors.Is(err, fault.Unavailable) {
		t.Errorf("an offer after the end: %v", err)
	}
	if _, err := dial(t, a, unclaimed.Token[:]); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a connection after the end: %v", err)
	}
	unclaimed.Close()
	a.Close()
}

// The end of an Acceptor waits for no hello.
func TestEndWithSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorts()
		stop := serving(t, acceptor(p))
		c := p.connect()
		defer c.Close()
		synctest.Wait()
		start := time.Now()
		stop()
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// An Acceptor that never serves is closed by Close.
func TestCloseWithoutServe(t *testing.T) {
	a, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	o := offer(t, a, echo)
	a.Close()
	if o.ctx.Err() == nil {
		t.Error("the offer is open")
	}
	if _, err := Listen(t.Context(), "no host"); err == nil {
		t.Error("a host that is none is listened on")
	}
}

// Peers that speak another protocol are closed without an answer, and harm nobody.
func TestGarbage(t *testing.T) {
	a := listening(t)
	o := offer(t, a, echo)
	for _, said := range []string{"", "E", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "EDLdata0" + string(o.Token[:]), hello + string(o.Token[:15]),
		strings.Repeat("x", 100_000)} {
		c, err := net.Dial("tcp", a.Address())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, said)
		_ = c.(*net.TCPConn).CloseWrite()
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("%.20q is answered with %q", said, b)
		}
		c.Close()
	}
	c, err := dial(t, a, o.Token[:])
	if err != nil {
		t.Fatal(err)
	}
	answers(t, c)
}

// A token that nobody claims is forgotten after a minute. A connection that has claimed one lives longer.
func TestOffersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorts()
		a := acceptor(p)
		stop := serving(t, a)
		defer stop()
		claimed, late := offer(t, a, echo), offer(t, a, echo)
		c, err := (&Dialer{}).greet(t.Context(), p.connect(), claimed.Token[:], TCP)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(claimTime - time.Nanosecond)
		synctest.Wait()
		if known(a) != 2 {
			t.Error("an offer was forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if known(a) != 1 || late.ctx.Err() == nil {
			t.Error("the offer is not forgotten")
		}
		if _, err := (&Dialer{}).greet(t.Context(), p.connect(), late.Token[:], TCP); !errors.Is(err, fault.Unavailable) {
			t.Errorf("the token is answered with %v", err)
		}
		answers(t, c)
	})
}

// Connections that say nothing are bounded in number and in time, so that they do not keep others out.
func TestSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorts()
		a := acceptor(p)
		stop := serving(t, a)
		defer stop()
		o := offer(t, a, echo)
		served, err := (&Dialer{}).greet(t.Context(), p.connect(), o.Token[:], TCP)
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		var silent []net.Conn
		for range maxSilent {
			silent = append(silent, p.connect())
		}
		if _, err := silent[0].Write([]byte(hello)); err != nil { // half a hello is silence, too
			t.Error(err)
		}
		synctest.Wait()
		start := time.Now()
		more := p.connect()
		if _, err := silent[0].Read(make([]byte, 1)); err != io.EOF || time.Since(start) > 0 {
			t.Errorf("the oldest silent connection is told %v after %v when there is one more", err, time.Since(start))
		}
		o = offer(t, a, echo)
		c, err := (&Dialer{}).greet(t.Context(), p.connect(), o.Token[:], TCP) // a trainer is let in although as many as may be are silent
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		for i, s := range append(silent, more) {
			if _, err := s.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("silent connection %d is told %v", i, err)
			}
			if d := time.Since(start); (d > 0) != (i > 1) { // two have given way
				t.Errorf("silent connection %d is closed after %v", i, d)
			}
		}
		if d := time.Since(start); d != greeting {
			t.Errorf("silent connections are closed after %v", d)
		}
		answers(t, served) // which may be silent as long as it likes
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.silent) != 0 || len(a.conns) != 1 {
			t.Errorf("%d silent connections of %d are left", len(a.silent), len(a.conns))
		}
	})
}

// A server that is short of file descriptors accepts again when it has some. Another error of its port ends it.
func TestErrorsOfThePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorts()
		a := acceptor(p)
		served := make(chan error, 1)
		go func() { served <- a.Serve(context.Background()) }()
		for i := range 20 {
			p.errs <- &net.OpError{Op: "accept", Net: "tcp", Err: []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}[i%4]}
		}
		o := offer(t, a, echo)
		c, err := (&Dialer{}).greet(t.Context(), p.connect(), o.Token[:], TCP)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		answers(t, c)
		p.errs <- errors.New("the port is gone")
		if err := <-served; !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the port is gone") {
			t.Errorf("Serve ends with %v", err)
		}
		if _, err := c.ReadHead(); err == nil {
			t.Error("a connection is open")
		}
	})
}

// A server that answers a hello with anything but Welcome, or with nothing, is not connected to.
func TestDialRefusesStrangeAnswers(t *testing.T) {
	for name, answer := range map[string][]byte{
		"nothing":             nil,
		"http":                []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"),
		"another frame":       frame(Head{Kind: Ack}, nil),
		"a welcome with more": frame(Head{Kind: Welcome}, []byte("x")),
		"half a welcome":      frame(Head{Kind: Welcome}, nil)[:40],
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan string, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, len(hello)+tokenBytes)
			_, _ = io.ReadFull(c, b)
			_, _ = c.Write(answer)
			c.Close()
			heard <- string(b)
		}()
		token := bytes.Repeat([]byte("t"), tokenBytes)
		if c, err := (&Dialer{}).Dial(t.Context(), Place{Address: l.Addr().String(), Token: token}, Layout{}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		if got := <-heard; got != hello+string(token) {
			t.Errorf("the server hears %q", got)
		}
		l.Close()
		if _, err := (&Dialer{}).Dial(t.Context(), Place{Address: l.Addr().String(), Token: token}, Layout{}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("a port that is closed: %v", err)
		}
	}
}

// A peer that takes a connection over TCP and says nothing, as a proxy does that passes nothing on, is given up: another try may help.
func TestDialIsAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trainer, server := net.Pipe()
		defer server.Close()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		start := time.Now()
		_, err := (&Dialer{Silence: 3 * time.Second}).greet(t.Context(), trainer, make([]byte, tokenBytes), TCP)
		if d := time.Since(start); d != 3*time.Second || !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "firewall") {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

// Dial ends with its context, although the server says nothing.
func TestDialEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts nothing: the system completes the connection
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	wrapped := make(chan struct{})
	go func() { <-wrapped; cancel() }()
	d := Dialer{Wrap: func(c net.Conn) net.Conn { close(wrapped); return c }}
	if _, err := d.Dial(ctx, Place{Address: l.Addr().String(), Token: make([]byte, tokenBytes)}, Layout{}); err == nil {
		t.Error("connected")
	}
	if _, err := d.Dial(ctx, Place{Address: l.Addr().String(), Token: make([]byte, tokenBytes)}, Layout{}); err == nil {
		t.Error("connected after the end")
	}
}
