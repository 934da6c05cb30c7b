package dataplane

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
)

// A Carrier is how bytes get from one end to the other.
type Carrier int

const (
	Auto   Carrier = iota // Shared where both ends are on one host, else TCP
	TCP                   // frames on a TCP connection
	Unix                  // frames on a unix socket: one host
	Shared                // frames on a unix socket, slices in memory that both ends share: one host, one user, Linux
)

// HostID tells one running system from another: equal on one host, different on others. It is empty where the system has no such name.
func HostID() string { return hostID() }

var carrierNames = [...]string{"auto", "tcp", "unix", "shm"}

// String is the name of the carrier, as the transport of a job has it.
func (c Carrier) String() string { return carrierNames[c] }

// Explicit reports whether somebody has asked for a carrier that does not work everywhere: then no other may take its place.
func (c Carrier) Explicit() bool { return c == Unix || c == Shared }

// A Place says where a server of the data plane is, and what it admits.
type Place struct {
	Address string // of TCP
	Host    string // says on which host Local is; empty: there is no Local
	Local   string // name of a unix socket
	Token   []byte
}

// A Dialer opens connections. The zero Dialer is ready.
type Dialer struct {
	Carrier Carrier
	// Silence is how long the machine of a server may leave a connection over TCP without an answer, in whole seconds from 2 on. Then the connection
	// ends. A server must also take a connection within this time, and answer the token within as much again: what stands between the two may take a
	// connection and pass nothing on. 0 leaves the first to the system, and the second to ctx.
	Silence time.Duration
	// TLS protects connections over TCP, and says which servers are spoken to; nil: they are in clear text.
	TLS *tls.Config
	// Wrap is given every connection before it is used; nil leaves it as it is. It is for tests that break connections. What a peer says before it shares
	// memory is not wrapped.
	Wrap func(net.Conn) net.Conn

	mu       sync.Mutex
	unshared map[string]bool // Auto: addresses of servers with which this process can share no memory
}

// Dial opens a connection with a layout, and shows its token. The error is fault.Unavailable if the server cannot be reached or does not admit the
// connection; then another token may help. It is fault.Unsupported if the carrier does not work between the two.
func (d *Dialer) Dial(ctx context.Context, at Place, l Layout) (*Conn, error) {
	if len(at.Token) != tokenBytes {
		return nil, fault.E(fault.Corrupt, fault.Gotf("a token of %d bytes", len(at.Token)), fault.Wantf("%d", tokenBytes))
	}
	local := at.Local != "" && at.Host != "" && at.Host == hostID()
	carrier := d.Carrier
	switch {
	case carrier == Auto && local && d.mayShare(at):
		c, err := d.dialLocal(ctx, at, &l)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		if errors.Is(err, fault.Unsupported) { // as between containers that share neither users nor memory
			d.unshare(at)
			return nil, fault.E(fault.Unavailable, fault.Cause(ErrUnshared), fault.Got(err.Error())) // the token is used up, but another one may help
		}
		if !errors.Is(err, errNotThere) {
			return nil, fault.E(fault.Unavailable, fault.Got(err.Error())) // not Cause, as above
		}
	case (carrier == Unix || carrier == Shared) && !local:
		return nil, fault.E(fault.Unsupported, fault.Got("a server on another host"), fault.Want("one on this host"), fault.Hint("use the transport auto or tcp"))
	case carrier == Unix:
		return d.dialLocal(ctx, at, nil)
	case carrier == Shared:
		return d.dialLocal(ctx, at, &l)
	}
	dialer := net.Dialer{Timeout: d.Silence}
	raw, err := dialer.DialContext(ctx, "tcp", at.Address)
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.At("data connection to "+at.Address), fault.Cause(err))
	}
	return d.greet(ctx, raw, at.Token, TCP)
}

// mayShare reports whether sharing memory with a server may work.
func (d *Dialer) mayShare(at Place) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.unshared[at.Address]
}

// unshare notes that sharing memory with a server does not work.
func (d *Dialer) unshare(at Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unshared == nil {
		d.unshared = map[string]bool{}
	}
	d.unshared[at.Address] = true
}

// ErrUnshared says that an Auto Dialer cannot share memory with a server of this host. The next connection to this server takes TCP.
var ErrUnshared = errors.New("memory cannot be shared")

// errNotThere says that nobody listens: the token can still be used.
var errNotThere = errors.New("the unix socket of the server cannot be reached")

// dialLocal connects to the unix socket of a server, and shares memory with it unless shared is nil, or has nothing that could lie there.
func (d *Dialer) dialLocal(ctx context.Context, at Place, shared *Layout) (*Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unix", at.Local)
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.At("data connection to "+at.Address), fault.Cause(errors.Join(errNotThere, err)))
	}
	if shared == nil || shared.bytes() == 0 { // nothing would lie in the memory
		return d.greet(ctx, raw, at.Token, Unix)
	}
	c := newConn(raw)
	c.carrier = Shared
	c.Bound(ctx, time.Time{})
	if err = c.takeMemory(at.Token, *shared); err != nil {
		c.Free()
		return nil, err
	}
	if d.Wrap != nil {
		wrapped := d.Wrap(raw)
		c.mu.Lock() // ctx may end now
		c.net = wrapped
		c.mu.Unlock()
		c.in.Reset(wrapped)
	}
	return c, nil
}

// greet shows a token and waits for Welcome.
func (d *Dialer) greet(ctx context.Context, raw net.Conn, token []byte, over Carrier) (*Conn, error) {
	tune(raw, d.Silence)
	if d.Wrap != nil {
		raw = d.Wrap(raw)
	}
	c := newConn(raw)
	c.carrier = over
	var until time.Time
	if over == TCP && d.Silence > 0 {
		until = time.Now().Add(d.Silence)
	}
	c.Bound(ctx, until)
	var err error
	if over == TCP && d.TLS != nil {
		err = c.secure(ctx, raw, d.TLS)
	}
	if err == nil {
		_, err = c.net.Write(append([]byte(hello), token...))
	}
	if err = broken(err); err == nil {
		err = welcomed(c.ReadHead())
	}
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			err = fault.E(fault.Unavailable, fault.At("data connection to "+raw.RemoteAddr().String()),
				fault.Gotf("a peer that took the connection and said nothing for %v", d.Silence), fault.Want("a pserver: is there a firewall or proxy between?"))
		}
		c.Free()
		return nil, err
	}
	c.Bound(ctx, time.Time{})
	return c, nil
}

// secure goes on over TLS. Nothing was written or read before.
func (c *Conn) secure(ctx context.Context, raw net.Conn, cfg *tls.Config) error {
	s, err := secure(ctx, raw, tls.Client, cfg)
	if err != nil {
		return err
	}
	c.mu.Lock() // ctx of Bound may end now
	c.net = s
	c.mu.Unlock()
	c.in.Reset(s)
	return nil
}

// welcomed checks the first answer of a server.
func welcomed(h Head, err error) error {
	if err == nil && (h.Kind != Welcome || h.Body > 0) {
		err = fault.E(fault.Unavailable, fault.Gotf("a frame %s", h.Kind), fault.Want("welcome"))
	}
	return err
}
