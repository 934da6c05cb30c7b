package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// cleanupTimeout bounds what is undone after the caller's context has ended.
const cleanupTimeout = time.Second

// registry is the Registry over any store.
type registry struct {
	store  store
	prefix string

	ctx     context.Context // of the handle
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // goroutines of Lost
	once    sync.Once
	err     error // of closing
}

var _ Registry = (*registry)(nil)

func newRegistry(s store, prefix string) *registry {
	r := &registry{store: s, prefix: prefix}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// Close ends the handle.
func (r *registry) Close() error {
	r.once.Do(func() {
		r.cancel(errClosed)
		r.running.Wait()
		r.err = r.store.close()
	})
	return r.err
}

// ClaimServer announces a pserver.
func (r *registry) ClaimServer(ctx context.Context, index int, address string) (Membership, error) {
	if index != AnyIndex {
		return r.claimMember(ctx, Member{Role: job.Role_PSERVER, Index: index}, address)
	}
	desired, err := r.Desired(ctx)
	if err != nil {
		return nil, err
	}
	for {
		v, err := r.look(ctx, r.prefix+serversKey)
		if err != nil {
			return nil, err
		}
		m := Member{Role: job.Role_PSERVER}
		for m.Index < desired && v[r.prefix+memberKey(m)].created != 0 {
			m.Index++
		}
		if m.Index == desired {
			return nil, &fault.Fault{Kind: fault.Fenced, Where: r.prefix + serversKey, Got: fmt.Sprintf("%d live pservers", desired), Want: "a free index",
				Hint: "the job already has all the pservers that it wants"}
		}
		held, err := r.claim(ctx, m, r.prefix+memberKey(m), address)
		if held != nil || err != nil {
			return result(held, err)
		}
	}
}

// JoinTrainer announces a trainer.
func (r *registry) JoinTrainer(ctx context.Context, rank int) (Membership, error) {
	return r.claimMember(ctx, Member{Role: job.Role_TRAINER, Index: rank}, "")
}

// LeadCoordinator takes the lock and announces the address under the same lease and at the same revision: there is never the address of a coordinator
// that does not hold the lock.
func (r *registry) LeadCoordinator(ctx context.Context, address string) (Membership, error) {
	m := Member{Role: job.Role_COORDINATOR}
	for {
		err := r.await(ctx, lockKey, func(v view) string {
			if holder, taken := v[r.prefix+lockKey]; taken {
				return "the coordinator at " + fault.Quote(holder.value) + " to give up the lock"
			}
			return ""
		})
		if err != nil {
			return nil, err
		}
		held, err := r.claim(ctx, m, r.prefix+lockKey, address, r.prefix+addressKey)
		if held != nil || err != nil {
			return result(held, err)
		}
	}
}

func (r *registry) claimMember(ctx context.Context, m Member, address string) (Membership, error) {
	if m.Index < 0 || m.Index >= maxMembers {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: r.prefix, Got: m.String(), Want: fmt.Sprintf("0 to %d", maxMembers-1)}
	}
	key := r.prefix + memberKey(m)
	held, err := r.claim(ctx, m, key, address)
	if held == nil && err == nil {
		err = &fault.Fault{Kind: fault.Fenced, Where: key, Got: "another live " + m.String(), Hint: "wait until its lease has ended"}
	}
	return result(held, err)
}

// result keeps a nil *membership from becoming a Membership that is not nil.
func result(m *membership, err error) (Membership, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// claim creates key, and also, under a lease of their own. It returns nil without an error when key is taken. A member is marked as joined in the same
// transaction, so that its loss can be told from its leaving.
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
