package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
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

// RegisterNode announces a listener.
func (r *registry) RegisterNode(ctx context.Context, id, address string) (Membership, error) {
	if !legalID.MatchString(id) {
		return nil, fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("node id "+fault.Quote(id)),
			fault.Want("1 to 128 letters, digits, '.', '_', ':' and '-'"))
	}
	held, err := r.claim(ctx, Member{}, nodesPrefix+id, address)
	if held == nil && err == nil {
		err = fault.E(fault.Fenced, fault.At(nodesPrefix+id), fault.Got("another live node of this id"),
			fault.Hint("give every listener an id of its own"))
	}
	return result(held, err)
}

// Nodes lists the listeners.
func (r *registry) Nodes(ctx context.Context) ([]Node, error) {
	v, err := r.look(ctx, nodesPrefix)
	nodes := make([]Node, 0, len(v))
	for key, e := range v {
		nodes = append(nodes, Node{ID: strings.TrimPrefix(key, nodesPrefix), Address: e.value})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes, err
}

// Live looks at the keys of members.
func (r *registry) Live(ctx context.Context) (map[Member]uint64, error) {
	live := map[Member]uint64{}
	for _, key := range []string{lockKey, serversKey, trainersKey} {
		v, err := r.look(ctx, r.prefix+key)
		if err != nil {
			return nil, err
		}
		for key, e := range v {
			if m, ok := memberOf(strings.TrimPrefix(key, r.prefix)); ok {
				live[m] = uint64(e.created)
			}
		}
	}
	return live, nil
}

// Bury ends the lease under which the key was taken, not the key: every claim has a lease of its own, so that whoever takes the key in between keeps
// it.
func (r *registry) Bury(ctx context.Context, m Member, incarnation uint64) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	key := r.prefix + memberKey(m)
	v, err := r.store.get(ctx, key)
	e, lives := v[key]
	if err != nil || !lives || incarnation != 0 && incarnation != uint64(e.created) {
		return storeFault(ctx, key, err)
	}
	return storeFault(ctx, key, r.store.end(ctx, e.lease))
}

// Forget removes all keys of the job but the numbers of its members, at one revision.
func (r *registry) Forget(ctx context.Context) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	t := txn{clears: []string{r.prefix + stateKey}, deletes: []string{r.prefix + commitKey}}
	for _, key := range roleKeys {
		t.clears = append(t.clears, r.prefix+key+"/", r.prefix+key+"_mark/")
	}
	_, _, err := r.store.commit(ctx, t)
	return storeFault(ctx, r.prefix, err)
}
