package coordinator_test

import (
	"context"
	"maps"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
)

// store is what the coordinators of a job keep, in memory. It can be made to fail.
type store struct {
	mu      sync.Mutex
	entries map[string][]byte
	fence   uint64 // of who holds the lock
	fail    func(changes []cluster.Change) error
	commits int
	largest int // changes of one commit
}

func newStore() *store { return &store{entries: map[string][]byte{}, fence: 10} }

// lead gives the lock to another coordinator.
func (s *store) lead() coordinator.Lead {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence++
	return coordinator.Lead{Fence: s.fence, State: &held{s, s.fence}}
}

// failing makes commits fail with what f returns, until it is nil.
func (s *store) failing(f func(changes []cluster.Change) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

func (s *store) copy() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.entries)
}

// apply makes changes durable. s.mu is held.
func (s *store) apply(changes []cluster.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s.entries, c.Key)
		} else {
			s.entries[c.Key] = c.Value
		}
	}
}

// held is the store as one coordinator has it.
type held struct {
	*store
	of uint64
}

func (h *held) check() error {
	if h.of != h.fence {
		return fault.E(fault.Fenced, fault.At("store"), fault.Got("a lock that was lost"))
	}
	return nil
}

func (h *held) Load(context.Context) (map[string][]byte, error) {
	entries := h.copy()
	h.mu.Lock()
	defer h.mu.Unlock()
	return entries, h.check()
}

func (h *held) Commit(_ context.Context, changes []cluster.Change) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	if h.fail != nil {
		if err := h.fail(changes); err != nil {
			return err
		}
	}
	h.commits++
	h.largest = max(h.largest, len(changes))
	h.apply(changes)
	return nil
}
