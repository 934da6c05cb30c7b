package dataplane

import (
	"context"
	"net"
	"time"

	"github.com/edl-go/edl/fault"
)

// A Place says where a server of the data plane is, and what it admits.
type Place struct {
	Address string // of TCP
	Token   []byte
}

// A Dialer opens connections. The zero Dialer is ready.
type Dialer struct {
	// Wrap is given every connection before it is used; nil leaves it as it is. It is for tests that break connections.
	Wrap func(net.Conn) net.Conn
}

// Dial opens a connection and shows its token. The error is fault.Unavailable if the server cannot be reached or does not admit the connection; then
// another token may help.
func (d Dialer) Dial(ctx context.Context, at Place) (*Conn, error) {
	if len(at.Token) != tokenBytes {
		return nil, fault.E(fault.Corrupt, fault.Gotf("a token of %d bytes", len(at.Token)), fault.Wantf("%d", tokenBytes))
	}
	var net net.Dialer
	raw, err := net.DialContext(ctx, "tcp", at.Address)
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.At("data connection to "+at.Address), fault.Cause(err))
	}
	tune(raw)
	if d.Wrap != nil {
		raw = d.Wrap(raw)
	}
	c := newConn(raw)
	c.Bound(ctx, time.Time{})
	if err = c.greet(at.Token); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// greet shows a token and waits for Welcome.
func (c *Conn) greet(token []byte) error {
	if _, err := c.net.Write(append([]byte(hello), token...)); err != nil {
		return c.broken(err)
	}
	h, err := c.ReadHead()
	if err == nil && (h.Kind != Welcome || h.Body > 0) {
		err = fault.E(fault.Unavailable, fault.Gotf("a frame %s", h.Kind), fault.Want("welcome"))
	}
	return err
}
