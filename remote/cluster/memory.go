package cluster

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is a store inside of this process, for jobs whose roles are goroutines. Its leases need no renewal: they end by Leave, Close or
// Expire.
type Memory struct {
	mu       sync.Mutex
	revision int64
	leases   int64 // granted so far
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
