package cluster

import (
	"context"
	"errors"
	"maps"

	"github.com/edl-go/edl/fault"
)

// memoryStore is one handle on a Memory.
type memoryStore struct {
	memory *Memory

	// Guarded by Memory.mu.
	leases map[*memoryLease]bool
	closed bool
}

var errClosed = fault.E(fault.Canceled, fault.Got("a registry that is closed"))

func (s *memoryStore) grant(context.Context) (lease, error) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.memory.leases++
	l := &memoryLease{store: s, number: s.memory.leases, ended: make(chan struct{})}
	s.leases[l] = true
	return l, nil
}

func (s *memoryStore) commit(ctx context.Context, t txn) (int64, bool, error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range t.when {
		revision := m.entries[c.key].modified
		if c.byCreation {
			revision = m.entries[c.key].created
		}
		if revision != c.revision {
			return m.revision, false, nil
		}
	}
	for _, p := range t.puts {
		if l, ok := p.lease.(*memoryLease); ok && !s.leases[l] {
			return m.revision, false, errors.New("the lease has ended")
		}
	}
	m.change(t)
	return m.revision, true, nil
}

func (s *memoryStore) end(_ context.Context, lease int64) error {
	s.memory.mu.Lock()
	var held *memoryLease
	for _, e := range s.memory.entries {
		if e.lease != nil && e.lease.number == lease {
			held = e.lease
		}
	}
	s.memory.mu.Unlock()
	if held != nil {
		held.end(true)
	}
	return nil
}

func (s *memoryStore) close() error {
	s.memory.mu.Lock()
	s.closed = true
	leases := maps.Clone(s.leases)
	s.memory.mu.Unlock()
	for l := range leases {
		l.end(true)
	}
	return nil
}
