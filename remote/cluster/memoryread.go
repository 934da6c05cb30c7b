package cluster

import (
	"context"
	"maps"
	"slices"
)

func (s *memoryStore) get(ctx context.Context, keys ...string) (view, error) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	v := view{}
	for _, key := range keys {
		if e, ok := s.memory.entries[key]; ok {
			v[key] = e.entry
		}
	}
	return v, ctx.Err()
}

func (s *memoryStore) scan(ctx context.Context, prefix string, see func(string, entry) error) error {
	s.memory.mu.Lock()
	v := s.memory.below(prefix)
	s.memory.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if err := see(key, v[key]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *memoryStore) follow(ctx context.Context, prefix string, see func(view) bool) error {
	m := s.memory
	w := &memoryWatcher{prefix: prefix, more: make(chan struct{}, 1)}
	m.mu.Lock()
	w.show(m.below(prefix))
	m.watchers[w] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.watchers, w)
		m.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.more:
		}
		m.mu.Lock()
		views := w.views
		w.views = nil
		m.mu.Unlock()
		for _, v := range views {
			if see(v) {
				return nil
			}
		}
	}
}
