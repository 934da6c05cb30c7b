package dataplane

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// placed makes an offer for slices of 8 bytes, and returns where a trainer may take it.
func placed(t *testing.T, a *Acceptor) (Place, Layout) {
	t.Helper()
	l := Layout{Send: tableOf(8), Receive: tableOf(8)}
	o, err := a.Offer(l, func(ctx context.Context, c *Conn) { _, _ = c.ReadHead() })
	if err != nil {
		t.Fatal(err)
	}
	return a.Place(o.Token), l
}

// over dials, and returns which carrier it has got.
func over(t *testing.T, d *Dialer, at Place, l Layout) (Carrier, error) {
	t.Helper()
	c, err := d.Dial(t.Context(), at, l)
	if err != nil {
		return Auto, err
	}
	defer c.Free()
	return c.Carrier(), nil
}

// full makes a server that has no more memory to share.
func full(t *testing.T) *Acceptor {
	a := listening(t)
	if err := a.reserve(maxShared); err != nil {
		t.Fatal(err)
	}
	return a
}

// Auto leaves shared memory for TCP only at a server where it does not work, and for good only there.
func TestAutoLeavesSharedMemoryByServer(t *testing.T) {
	d, without, with := &Dialer{}, full(t), listening(t)
	at, l := placed(t, without)
	if _, err := over(t, d, at, l); !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "shared memory") {
		t.Errorf("the first connection: %v", err)
	}
	dials := func(a *Acceptor, want Carrier) {
		t.Helper()
		at, l := placed(t, a)
		if got, err := over(t, d, at, l); got != want || err != nil {
			t.Errorf("the connection is one over %v, want %v (%v)", got, want, err)
		}
	}
	dials(without, TCP)
	dials(with, Shared)
	_ = without.reserve(-maxShared)
	dials(without, TCP)
	at, l = placed(t, with)
	at.Token[0]++
	if _, err := over(t, d, at, l); !errors.Is(err, fault.Unavailable) { // of this connection, not of the carrier
		t.Error(err)
	}
	at.Token[0]--
	at.Local += "-gone" // as from another container of the host
	if got, err := over(t, d, at, l); got != TCP || err != nil {
		t.Errorf("without a unix socket: %v, %v", got, err)
	}
	dials(with, Shared)
}

// A carrier that was asked for is used, or refused with a reason.
func TestExplicitCarriers(t *testing.T) {
	for _, want := range []Carrier{TCP, Unix, Shared} {
		at, l := placed(t, listening(t))
		if got, err := over(t, &Dialer{Carrier: want}, at, l); got != want || err != nil {
			t.Errorf("%v: the connection is one over %v (%v)", want, got, err)
		}
		at, l = placed(t, listening(t))
		at.Host += "another"
		if _, err := over(t, &Dialer{Carrier: want}, at, l); want.Explicit() && !errors.Is(err, fault.Unsupported) || !want.Explicit() && err != nil {
			t.Errorf("%v, a server on another host: %v", want, err)
		}
	}
	at, l := placed(t, full(t))
	if _, err := over(t, &Dialer{Carrier: Shared}, at, l); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a server without memory: %v", err)
	}
	o := offer(t, listening(t), echo)
	if got, err := over(t, &Dialer{Carrier: Shared}, o.of.Place(o.Token), Layout{}); got != Unix || err != nil {
		t.Errorf("nothing to share: a connection over %v (%v)", got, err)
	}
	if names := []string{Auto.String(), TCP.String(), Unix.String(), Shared.String()}; strings.Join(names, " ") != "auto tcp unix shm" {
		t.Error(names)
	}
}
