package cluster

import (
	"sync"
	"testing"
)

// A lease that is asked for while a store ends those that it has is refused: no key stays that nobody holds.
func TestGrantWhileClosing(t *testing.T) {
	m := NewMemory()
	for range 200 {
		s := &memoryStore{memory: m, leases: map[*memoryLease]bool{}}
		var granting sync.WaitGroup
		for range 200 {
			l, err := s.grant(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			granting.Go(func() {
				<-l.lost()
				l, err := s.grant(t.Context())
				if err == nil {
					_, _, _ = s.commit(t.Context(), txn{puts: []put{{key: "/edl/digits", lease: l}}})
				}
			})
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		granting.Wait()
	}
	if left := m.below("/edl/"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
