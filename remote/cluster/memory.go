package cluster

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/edl-go/edl/fault"
)

// Memory is a store inside of this process, for jobs whose roles are goroutines. Its leases need no renewal: they end by Leave, Close or
// Expire.
type Memory struct {
	mu       sync.Mutex
	revision int64
	entries  map[string]memoryEntry
	watchers map[*memoryWatcher]bool
}

type memoryEntry struct {
	entry
	lease *memoryLease
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{entries: map[string]memoryEntry{}, watchers: map[*memoryWatcher]bool{}}
}

// Open returns a handle on the job whose keys are below prefix. Every role has a handle of its own: closing it ends the role's memberships.
func (m *Memory) Open(prefix string) (Registry, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	return newRegistry(&memoryStore{memory: m, leases: map[*memoryLease]bool{}}, prefix), nil
}

// Expire ends the lease of a member as if it had ceased to renew it.
func (m *Memory) Expire(prefix string, member Member) {
	m.mu.Lock()
	lease := m.entries[prefix+memberKey(member)].lease
	m.mu.Unlock()
	if lease != nil {
		lease.end(true)
	}
}

// change makes the changes of t and shows watchers what has become of them. m.mu is held.
func (m *Memory) change(t txn) {
	m.revision++
	changed := make([]string, 0, len(t.puts)+len(t.deletes))
	for _, p := range t.puts {
		created := m.entries[p.key].created
		if created == 0 {
			created = m.revision
		}
		lease, _ := p.lease.(*memoryLease)
		m.entries[p.key] = memoryEntry{entry: entry{value: p.value, created: created, modified: m.revision}, lease: lease}
		changed = append(changed, p.key)
	}
	for _, key := range t.deletes {
		if _, ok := m.entries[key]; ok {
			delete(m.entries, key)
			changed = append(changed, key)
		}
	}
	for w := range m.watchers {
		for _, key := range changed {
			if strings.HasPrefix(key, w.prefix) {
				w.show(m.below(w.prefix))
				break
			}
		}
	}
}

// below returns the entries below prefix. m.mu is held.
func (m *Memory) below(prefix string) view {
	v := view{}
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			v[key] = e.entry
		}
	}
	return v
}

// memoryWatcher queues views for one follower.
type memoryWatcher struct {
	prefix string
	views  []view // guarded by Memory.mu
	more   chan struct{}
}

func (w *memoryWatcher) show(v view) {
	w.views = append(w.views, v)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// memoryStore is one handle on a Memory.
type memoryStore struct {
	memory *Memory
	leases map[*memoryLease]bool // nil once closed; guarded by Memory.mu
}

var errClosed = &fault.Fault{Kind: fault.Canceled, Got: "a registry that is closed"}

func (s *memoryStore) grant(context.Context) (lease, error) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.leases == nil {
		return nil, errClosed
	}
	l := &memoryLease{store: s, ended: make(chan struct{})}
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
	if t.key != "" && m.entries[t.key].created != t.created {
		return m.revision, false, nil
	}
	for _, p := range t.puts {
		if l, ok := p.lease.(*memoryLease); ok && !s.leases[l] {
			return m.revision, false, errors.New("the lease has ended")
		}
	}
	m.change(t)
	return m.revision, true, nil
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

func (s *memoryStore) close() error {
	s.memory.mu.Lock()
	leases := maps.Clone(s.leases)
	s.memory.mu.Unlock()
	for l := range leases {
		l.end(true)
	}
	s.memory.mu.Lock()
	s.leases = nil
	s.memory.mu.Unlock()
	return nil
}

// memoryLease ends once, in order or by loss.
type memoryLease struct {
	store *memoryStore
	ended chan struct{}
}

func (l *memoryLease) lost() <-chan struct{} { return l.ended }

func (l *memoryLease) revoke(context.Context) error {
	l.end(false)
	return nil
}

func (l *memoryLease) end(lost bool) {
	m := l.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.store.leases[l] {
		return
	}
	delete(l.store.leases, l)
	if lost {
		close(l.ended)
	}
	var t txn
	for key, e := range m.entries {
		if e.lease == l {
			t.deletes = append(t.deletes, key)
		}
	}
	if len(t.deletes) > 0 {
		m.change(t)
	}
}
