package dataplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/wire"
)

// jobSides are the sides of two processes of a job, of the same authority.
func jobSides(t *testing.T, a *credential.Authority, job string) (server, client *wire.Side) {
	t.Helper()
	side := func(role string) *wire.Side {
		c, err := a.Issue(credential.Name{Kind: credential.Role, Job: job, Role: role}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return wire.OfJob(c, job)
	}
	return side("pserver"), side("trainer")
}

func newAuthority(t *testing.T) *credential.Authority {
	t.Helper()
	a, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A tap sees what a connection writes and reads, and cuts it after so many bytes of what is read; 0: never.
type tap struct {
	net.Conn
	cut int

	mu   sync.Mutex
	seen []byte
	read int
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.seen = append(p.seen, b...)
	p.mu.Unlock()
	return p.Conn.Write(b)
}

func (p *tap) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, b[:n]...)
	if p.read += n; p.cut > 0 && p.read > p.cut {
		_ = p.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// Tensors of all sizes cross a protected connection both ways, and nobody on the way sees a byte of them, or the token.
func TestSecured(t *testing.T) {
	server, client := jobSides(t, newAuthority(t), "digits")
	a, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	a.TLS = server.DataServer()
	serving(t, a)
	table := tableOf(0, 1, 5, 16<<10, 300_001, 3<<20, 7)
	values := valuesOf(table)
	o, err := a.Offer(Layout{Send: table, Receive: table}, func(ctx context.Context, c *Conn) {
		got, _, err := receive(c, table)
		if err == nil {
			err = send(c, got, all(table))
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var wire *tap
	d := Dialer{Carrier: TCP, TLS: client.DataClient(), Wrap: func(c net.Conn) net.Conn {
		wire = &tap{Conn: c}
		return wire
	}}
	c, err := d.Dial(t.Context(), a.Place(o.Token), Layout{Send: table, Receive: table})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() { sent <- send(c, values, []int{4, 0}, []int{1, 2, 3, 5, 6}) }()
	got, _, err := receive(c, table)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	for i := range values {
		if !bytes.Equal(got[i], values[i]) {
			t.Errorf("slice %d has changed on its way", i)
		}
	}
	wire.mu.Lock()
	defer wire.mu.Unlock()
	if len(wire.seen) < 2*table.Bytes() {
		t.Fatalf("only %d bytes were seen of %d", len(wire.seen), 2*table.Bytes())
	}
	for name, secret := range map[string][]byte{"token": o.Token[:], "hello": []byte(hello), "slice 3": values[3][:32], "slice 5": values[5][1<<20:][:32]} {
		if bytes.Contains(wire.seen, secret) {
			t.Errorf("the %s travels in clear text", name)
		}
	}
}

// Who is not of the job gets no connection, and neither does who speaks without TLS, or to a server without it. The server goes on.
func TestSecuredFrom(t *testing.T) {
	authority := newAuthority(t)
	server, client := jobSides(t, authority, "digits")
	_, otherJob := jobSides(t, authority, "letters")
	_, otherAuthority := jobSides(t, newAuthority(t), "digits")
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		works          bool
	}{
		{"the same job", server.DataServer(), client.DataClient(), true},
		{"another job", server.DataServer(), otherJob.DataClient(), false},
		{"another authority", server.DataServer(), otherAuthority.DataClient(), false},
		{"no certificate", server.DataServer(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, false},
		{"clear text", server.DataServer(), nil, false},
		{"a server in clear text", nil, client.DataClient(), false},
		{"both in clear text", server.ClearData().DataServer(), client.ClearData().DataClient(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, err := Listen(t.Context(), "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			a.TLS = c.server
			serving(t, a)
			served := make(chan struct{})
			o := offer(t, a, func(context.Context, *Conn) { close(served) })
			d := Dialer{Carrier: TCP, TLS: c.client}
			conn, err := d.Dial(t.Context(), a.Place(o.Token), Layout{})
			if conn != nil {
				defer conn.Close()
			}
			if (err == nil) != c.works {
				t.Errorf("dial: %v", err)
			}
			if err != nil && !errors.Is(err, fault.Unavailable) {
				t.Errorf("the kind of %v", err)
			}
			if c.works {
				<-served
				return
			}
			select {
			case <-served:
				t.Error("a connection is served")
			default:
			}
			d = Dialer{Carrier: TCP} // the offer is still open for who may have it
			if c.server != nil {
				d.TLS = client.DataClient()
			}
			again, err := d.Dial(t.Context(), a.Place(o.Token), Layout{})
			if err != nil {
				t.Fatalf("after %s, the trainer gets %v", c.name, err)
			}
			defer again.Close()
			<-served
		})
	}
}

// A protected connection that is cut at any point ends with an error that another connection may help.
func TestSecuredIsCut(t *testing.T) {
	server, client := jobSides(t, newAuthority(t), "digits")
	a, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	a.TLS = server.DataServer()
	serving(t, a)
	table := tableOf(70_000, 3)
	values := valuesOf(table)
	whole := 0
	for cut := 100; whole == 0; cut += 3000 {
		o, err := a.Offer(Layout{Send: table, Receive: table}, func(_ context.Context, c *Conn) { _ = send(c, values, all(table)) })
		if err != nil {
			t.Fatal(err)
		}
		d := Dialer{Carrier: TCP, TLS: client.DataClient(), Wrap: func(c net.Conn) net.Conn { return &tap{Conn: c, cut: cut} }}
		c, err := d.Dial(t.Context(), a.Place(o.Token), Layout{Send: table, Receive: table})
		if err == nil {
			_, _, err = receive(c, table)
			c.Close()
		}
		switch {
		case err == nil:
			whole = cut
		case !errors.Is(err, fault.Unavailable):
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
	if whole < 70_000 {
		t.Errorf("a connection that was cut after %d bytes has brought 70,003", whole)
	}
}
