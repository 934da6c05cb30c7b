package cluster

import (
	"context"
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
			return nil, fault.E(fault.Fenced, fault.At(r.prefix+serversKey), fault.Gotf("%d live pservers", desired), fault.Want("a free index"),
				fault.Hint("the job already has all the pservers that it wants"))
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
		return nil, fault.E(fault.InvalidArgument, fault.At(r.prefix), fault.Got(m.String()), fault.Wantf("0 to %d", maxMembers-1))
	}
	key := r.prefix + memberKey(m)
	held, err := r.claim(ctx, m, key, address)
	if held == nil && err == nil {
		err = fault.E(fault.Fenced, fault.At(key), fault.Got("another live "+m.String()), fault.Hint("wait until its lease has ended"))
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
