package cluster

import (
	"context"
	"sync"

	"github.com/edl-go/edl/fault"
)

// membership is a key under a lease.
type membership struct {
	registry *registry
	member   Member
	lease    lease
	keys     []string
	mark     string // empty for a node
	losses   int    // of earlier holders
	created  int64
	state    *state // of a coordinator

	mu   sync.Mutex
	left bool
}

func (m *membership) Member() Member        { return m.member }
func (m *membership) Done() <-chan struct{} { return m.lease.lost() }
func (m *membership) Fence() uint64         { return uint64(m.created) }

// Leave marks the member as left and removes its keys in one transaction, conditioned on the key being the one that it created.
func (m *membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	r := m.registry
	ctx, cancel := r.scope(ctx)
	defer cancel()
	t := txn{when: []condition{created(m.keys[0], m.created)}, deletes: m.keys}
	if m.mark != "" {
		t.puts = []put{{key: m.mark, value: mark{losses: m.losses}.String()}}
	}
	_, ok, err := r.store.commit(ctx, t)
	if (err != nil || !ok) && m.markedLeft(ctx) {
		ok, err = true, nil // the answer was lost, now or before
	}
	if err != nil {
		return storeFault(ctx, m.keys[0], err)
	}
	if !ok {
		return fault.E(fault.Fenced, fault.At(m.keys[0]), fault.Got("a lease that was lost before leaving"))
	}
	m.left = true
	_ = m.lease.revoke(ctx) // a lease without keys does no harm
	return nil
}

// markedLeft reports whether the mark says that this holder has left: that of a lost one,
// or of who took the key after it was lost, counts differently.
func (m *membership) markedLeft(ctx context.Context) bool {
	if m.mark == "" {
		return false
	}
	now, err := m.registry.store.get(ctx, m.keys[0], m.mark)
	return err == nil && now[m.keys[0]].created != m.created && now[m.mark].value == mark{losses: m.losses}.String()
}
