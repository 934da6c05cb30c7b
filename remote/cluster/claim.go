package cluster

import (
	"context"

	"github.com/edl-go/edl/proto/job"
)

// claim creates key, and also, under a lease of their own. It returns nil without an error when key is taken. A member is marked as joined in the
// same transaction, so that its loss can be told from its leaving.
func (r *registry) claim(ctx context.Context, m Member, key, value string, also ...string) (*membership, error) {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	held, keys := &membership{registry: r, member: m, keys: append([]string{key}, also...)}, []string{key}
	if m != (Member{}) {
		held.mark = r.prefix + markKey(m)
		keys = append(keys, held.mark)
	}
	for {
		now, err := r.store.get(ctx, keys...)
		if _, taken := now[key]; taken || err != nil {
			return nil, storeFault(ctx, key, err)
		}
		if ok, err := held.take(ctx, value, now[held.mark]); ok || err != nil {
			return r.taken(ctx, held, err)
		}
	}
}

// take tries to create the keys, given the mark as it was when there was no key.
func (m *membership) take(ctx context.Context, value string, marked entry) (bool, error) {
	s := m.registry.store
	l, err := s.grant(ctx)
	if err != nil {
		return false, err
	}
	m.lease = l
	t := txn{when: []condition{absent(m.keys[0])}}
	for _, k := range m.keys {
		t.puts = append(t.puts, put{key: k, value: value, lease: l})
	}
	if m.mark != "" {
		m.losses = markIn(marked.value).after()
		t.when = append(t.when, changed(m.mark, marked.modified))
		t.puts = append(t.puts, put{key: m.mark, value: mark{joined: true, losses: m.losses}.String()})
	}
	revision, ok, err := s.commit(ctx, t)
	if err != nil {
		// The key tells whether it was taken before the answer was lost.
		if now, looked := s.get(ctx, m.keys[0]); looked == nil && now[m.keys[0]].lease == l.id() {
			revision, ok, err = now[m.keys[0]].created, true, nil
		}
	}
	if err != nil || !ok {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = l.revoke(cleanup) // else it ends unrenewed
		return false, err
	}
	m.created = revision
	return true, nil
}

// taken is what claim returns of a member that took its key or failed to.
func (r *registry) taken(ctx context.Context, held *membership, err error) (*membership, error) {
	if err != nil {
		return nil, storeFault(ctx, held.keys[0], err)
	}
	if held.member.Role == job.Role_COORDINATOR {
		held.state = newState(held)
	}
	return held, nil
}
