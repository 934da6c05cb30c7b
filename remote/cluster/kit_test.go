package cluster

import (
	"context"
	"testing"
	"time"
)

// bounded ends with the test, and when patience does.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := bounded(t)
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("no ", what)
		case <-looks.C:
		}
	}
}

// deadline is when the lease of a member in etcd ends unless it is renewed once more.
func deadline(m Membership) time.Time {
	l := m.(*membership).lease.(*etcdLease)
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return l.deadline
}

// expect receives what must come.
func expect[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-bounded(t).Done():
		t.Fatal("nothing came")
	}
	panic("unreachable")
}
