package cluster

import "context"

// memoryLease ends once, in order or by loss.
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
