package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// The context of Peers ends when the store refuses to report the addresses of a member.
func TestPeersThatCannotBeFollowed(t *testing.T) {
	prefix := Prefix("refusing")
	open := func(refused string) Registry {
		r := newRegistry(&refusing{&memoryStore{memory: NewMemory(), leases: map[*memoryLease]bool{}}, prefix + refused}, prefix)
		t.Cleanup(func() { r.Close() })
		return r
	}
	ctx := bounded(t)
	for name, m := range map[string]Member{serversKey + "1": {server0.Role, 1}, addressKey: coordinator} {
		peers := NewPeers(ctx, open(name), nil)
		if _, err := peers.Servers(2); err != nil {
			t.Fatal(err)
		}
		if _, err := peers.Coordinator(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-peers.Context().Done():
		case <-ctx.Done():
			t.Fatal("nobody hears of it")
		}
		cause := context.Cause(peers.Context())
		if !errors.Is(cause, fault.Unavailable) || !strings.Contains(cause.Error(), m.String()) {
			t.Errorf("%s: %v", name, cause)
		}
		if err := peers.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Peers that end in order have no other cause.
func TestPeersThatEnd(t *testing.T) {
	told := errors.New("told to end")
	for name, end := range map[string]func(*Peers, context.CancelCauseFunc) error{
		"closed": func(p *Peers, _ context.CancelCauseFunc) error { return context.Canceled },
		"told":   func(_ *Peers, cancel context.CancelCauseFunc) error { cancel(told); return told },
	} {
		ctx, cancel := context.WithCancelCause(bounded(t))
		r, err := NewMemory().Open(Prefix("peers"))
		if err != nil {
			t.Fatal(err)
		}
		peers := NewPeers(ctx, r, nil)
		if _, err := peers.Servers(3); err != nil {
			t.Fatal(err)
		}
		want := end(peers, cancel)
		if err := errors.Join(peers.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if cause := context.Cause(peers.Context()); !errors.Is(cause, want) {
			t.Errorf("%s: %v", name, cause)
		}
		cancel(nil)
	}
}

// Losses are reported for all roles or for none: the channel is closed when the store refuses one role.
func TestLostOfSomeRolesOnly(t *testing.T) {
	memory := NewMemory()
	prefix := Prefix("refusing")
	s := &memoryStore{memory: memory, leases: map[*memoryLease]bool{}}
	r := newRegistry(&refusing{s, prefix + "/ps"}, prefix)
	defer r.Close()
	ctx := bounded(t)
	lost, err := r.WatchLost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case m, more := <-lost:
		if more {
			t.Errorf("%v is lost", m)
		}
	case <-ctx.Done():
		t.Error("the losses of other roles are still awaited")
	}
}

// refusing is a store that does not let a prefix be read.
type refusing struct {
	store
	prefix string
}

func (s *refusing) follow(ctx context.Context, prefix string, see func(view) bool) error {
	if prefix == s.prefix {
		return fault.New(fault.InvalidArgument, "permission denied")
	}
	return s.store.follow(ctx, prefix, see)
}
