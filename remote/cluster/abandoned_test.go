package cluster

import (
	"fmt"
	"testing"
)

// A listener that starts removes the keys of jobs whose listeners were killed: of those without a live member, and of no others. Nodes are no jobs.
func TestRemoveAbandoned(t *testing.T) {
	m := NewMemory()
	open := func(name string) Registry {
		t.Helper()
		r, err := m.Open(Prefix(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	h := &home{T: t}
	dead, ownerless, lives, sweeper := open("dead"), open("ownerless"), open("lives"), open("listener")
	for _, r := range []Registry{dead, lives} {
		h.member(r.Claim(t.Context()))
		h.ok(r.SetDesired(t.Context(), 2))
	}
	h.member(dead.JoinTrainer(t.Context(), 0))
	h.member(ownerless.JoinServer(t.Context(), 1, "s:1"))
	h.member(sweeper.RegisterNode(t.Context(), "node", "n:1"))
	h.ok(dead.Close()) // as its listener is killed, with its roles
	sweep := func(want string, wantOthers bool) {
		t.Helper()
		if removed, others, err := sweeper.RemoveAbandoned(t.Context()); fmt.Sprint(removed) != want || others != wantOthers || err != nil {
			t.Errorf("removed are %v, others: %t, %v, want %s, %t", removed, others, err, want, wantOthers)
		}
	}
	sweep("[dead]", true)
	sweep("[]", true)
	if n, err := open("lives").Desired(t.Context()); n != 2 || err != nil {
		t.Errorf("the job that lives has lost its keys: %d, %v", n, err)
	}
	h.ok(ownerless.Close())
	h.ok(lives.Close())
	sweep("[lives ownerless]", false)
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.entries {
		if key != nodesPrefix+"node" {
			t.Errorf("%s is left", key)
		}
	}
}
