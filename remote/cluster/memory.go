package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/edl-go/edl/fault"
)

// Memory is a store inside this process, for jobs whose roles are goroutines. Nobody renews its leases: they end by Leave, Close or Expire.
type Memory struct {
	mu       sync.Mutex
	revision int64
	leases   int64 // granted so far
	granted  map[int64]*memoryLease
	entries  map[string]memoryEntry
	watchers map[*memoryWatcher]bool
}

type memoryEntry struct {
	entry
	lease *memoryLease
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{entries: map[string]memoryEntry{}, granted: map[int64]*memoryLease{}, watchers: map[*memoryWatcher]bool{}}
}

// Open returns a handle on the job whose keys are below prefix. Every role has a handle of its own: closing it ends the role's memberships.
func (m *Memory) Open(prefix string) (Registry, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	return newRegistry(&memoryStore{memory: m, leases: map[*memoryLease]bool{}}, prefix), nil
}

// Expire ends the lease of a member as if it had ceased to renew it, and declares the member lost.
func (m *Memory) Expire(prefix string, member Member) { m.expire(prefix, member, true) }

// expire ends the lease of a member. If it is not declared lost, it may take its key anew.
func (m *Memory) expire(prefix string, member Member, declared bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lease := m.entries[prefix+memberKey(member)].lease
	if lease == nil {
		return
	}
	var t txn
	if record := parseLossRecord(m.entries[prefix+lossKey(member)].value); declared {
		record = lossRecord{how: recordLost, losses: record.losses}
		t.puts = []put{{key: prefix + lossKey(member), value: record.String()}}
	}
	lease.endWith(true, t)
}

// change makes the changes of t and shows the watchers of the changed keys the result. m.mu is held.
func (m *Memory) change(t txn) {
	m.revision++
	changed := make([]string, 0, len(t.puts)+len(t.deletes))
	for _, p := range t.puts {
		created := m.entries[p.key].created
		if created == 0 {
			created = m.revision
		}
		e := memoryEntry{entry: entry{value: p.value, created: created, modified: m.revision}}
		if l, ok := p.lease.(*memoryLease); ok {
			e.lease, e.entry.lease = l, l.number
		}
		m.entries[p.key] = e
		changed = append(changed, p.key)
	}
	deletes := t.deletes
	for _, prefix := range t.clears {
		deletes = slices.AppendSeq(slices.Clip(deletes), maps.Keys(m.below(prefix)))
	}
	for _, key := range deletes {
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

	// Guarded by Memory.mu.
	leases map[*memoryLease]bool
	closed bool
}

var errClosed = fault.E(fault.Canceled, fault.Got("a registry that is closed"))

func (*memoryStore) contact() *contact { return nil }

func (s *memoryStore) grant(context.Context) (lease, error) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.memory.leases++
	l := &memoryLease{store: s, number: s.memory.leases, ended: make(chan struct{})}
	s.leases[l], s.memory.granted[l.number] = true, l
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

func (s *memoryStore) revoke(_ context.Context, lease int64) error {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if l := s.memory.granted[lease]; l != nil {
		l.endWith(true, txn{})
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

// memoryLease ends once: it is revoked or lost.
type memoryLease struct {
	store  *memoryStore
	number int64
	ended  chan struct{}
}

func (l *memoryLease) id() int64 { return l.number }

func (l *memoryLease) lost() <-chan struct{} { return l.ended }

func (l *memoryLease) revoke(context.Context) error {
	l.end(false)
	return nil
}

func (l *memoryLease) end(lost bool) {
	m := l.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	l.endWith(lost, txn{})
}

// endWith ends the lease and makes the changes of t at the same revision. The mutex of the Memory is held.
func (l *memoryLease) endWith(lost bool, t txn) {
	m := l.store.memory
	if !l.store.leases[l] {
		return
	}
	delete(l.store.leases, l)
	delete(m.granted, l.number)
	if lost {
		close(l.ended)
	}
	for key, e := range m.entries {
		if e.lease == l {
			t.deletes = append(t.deletes, key)
		}
	}
	if len(t.deletes)+len(t.puts) > 0 {
		m.change(t)
	}
}
