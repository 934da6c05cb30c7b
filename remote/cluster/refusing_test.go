package cluster

import (
	"context"
	"testing"

	"github.com/edl-go/edl/fault"
)

// Losses are told of all roles or not at all: the channel is closed when the store refuses to tell those of one.
func TestLostOfSomeRolesOnly(t *testing.T) {
	memory := NewMemory()
	prefix := Prefix("refusing")
	s := &memoryStore{memory: memory, leases: map[*memoryLease]bool{}}
	r := newRegistry(&refusing{s, prefix + "/ps"}, prefix)
	defer r.Close()
	ctx := bounded(t)
	lost, err := r.Lost(ctx)
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
