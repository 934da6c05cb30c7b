package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/id"
)

// cleanupTimeout bounds what is undone after the caller's context has ended.
const cleanupTimeout = time.Second

// registry is the Registry over any store.
type registry struct {
	reader
	cancel context.CancelCauseFunc
	once   sync.Once
	err    error // of closing
	// patience is how long members wait for the listener of their job when etcd has lost its data.
	patience time.Duration
	// answers reports whether the process at an address answers; nil: nobody is asked. lease is that of members.
	answers func(ctx context.Context, address string) bool
	lease   time.Duration
	// removed is called when the keys of the job are; nil: nothing follows.
	removed func(ctx context.Context) error

	mu     sync.Mutex
	counts map[string]string // what SetDesired and SetTrainers have written last, by key
}

var _ Registry = (*registry)(nil)

func newRegistry(s store, prefix string) *registry {
	r := &registry{reader: reader{store: s, prefix: prefix}, patience: rebuildPatience, lease: DefaultLease, counts: map[string]string{}}
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

// Silent reports whether the store answers.
func (r *registry) Silent() (since time.Time, reason error) { return r.store.contact().silent() }

// commit makes one transaction: every change that this package makes in a store goes this way. When the transaction has no good answer, made finds
// out whether it was applied all the same, by this try or an earlier one. made is nil where that does not matter.
func (r *registry) commit(ctx context.Context, t txn, made func() (revision int64, ok bool)) (revision int64, ok bool, err error) {
	revision, ok, err = r.store.commit(ctx, t)
	if !ok && made != nil {
		if at, applied := made(); applied {
			return at, true, nil
		}
	}
	return revision, ok, err
}

// JoinServer announces a pserver.
func (r *registry) JoinServer(ctx context.Context, index int, address string) (Membership, error) {
	if index != AnyIndex {
		return join(ctx, r, Member{Role: job.Role_PSERVER, Index: index}, address)
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
				fault.Hint("the job already has all its pservers"))
		}
		if joined, err := acquire(ctx, r, m, r.prefix+memberKey(m), address); joined != nil || err != nil {
			return membershipOf(joined, err)
		}
	}
}

// JoinStandby announces a standby.
func (r *registry) JoinStandby(ctx context.Context, index int, address string) (Membership, error) {
	return join(ctx, r, Member{Role: job.Role_STANDBY, Index: index}, address)
}

// JoinTrainer announces a trainer.
func (r *registry) JoinTrainer(ctx context.Context, rank int) (Membership, error) {
	return join(ctx, r, Member{Role: job.Role_TRAINER, Index: rank}, "")
}

func join(ctx context.Context, r *registry, m Member, address string) (Membership, error) {
	if m.Index < 0 || m.Index >= maxMembers {
		return nil, fault.E(fault.InvalidArgument, fault.At(r.prefix), fault.Got(m.String()), fault.Wantf("0 to %d", maxMembers-1))
	}
	key := r.prefix + memberKey(m)
	joined, err := acquire(ctx, r, m, key, address)
	if joined == nil && err == nil {
		err = fault.E(fault.Fenced, fault.At(key), fault.Got("another live "+m.String()), fault.Hint("wait until its lease has ended"))
	}
	return membershipOf(joined, err)
}

// LeadCoordinator takes the lock and announces the address under the same lease and at the same revision: the address is always that of the
// coordinator that holds the lock.
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
		leader, err := acquire(ctx, r, m, r.prefix+lockKey, address, r.prefix+addressKey)
		if leader != nil || err != nil {
			return membershipOf(leader, err)
		}
	}
}

// RegisterNode announces a listener. A listener that was killed does not keep the next one at its address away.
func (r *registry) RegisterNode(ctx context.Context, id, address string) (Membership, error) {
	if !legalID.MatchString(id) {
		return nil, fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("node id "+fault.Quote(id)),
			fault.Want("1 to 128 letters, digits, '.', '_', ':' and '-'"))
	}
	if err := forgetNode(ctx, r, id, address); err != nil {
		return nil, err
	}
	node, err := acquire(ctx, r, Member{}, nodesPrefix+id, address)
	if node == nil && err == nil {
		err = fault.E(fault.Fenced, fault.At(nodesPrefix+id), fault.Got("another live node of this id"),
			fault.Hint("give every listener an id of its own"))
	}
	return membershipOf(node, err)
}

// forgetNode removes the key of a listener that was at an address where another one is now: the port is free only when a process has gone.
func forgetNode(ctx context.Context, r *registry, id, address string) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	key := nodesPrefix + id
	now, err := r.store.get(ctx, key)
	if held, taken := now[key]; err == nil && taken && held.value == address {
		_, _, err = r.commit(ctx, txn{when: []condition{changed(key, held.modified)}, deletes: []string{key}}, nil)
	}
	return r.storeFault(ctx, key, err)
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

// membershipOf keeps a nil *membership from becoming a Membership that is not nil.
func membershipOf(m *membership, err error) (Membership, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// membership is a key under a lease, see keep.go.
type membership struct {
	registry *registry
	member   Member
	keys     []string // the first is the one that counts
	value    string   // of the keys
	record   string   // key of the loss record; empty for a node and a listener
	eraKey   string   // empty for a node
	losses   int      // of earlier holders
	created  int64    // revision at which the member joined: its incarnation
	state    *state   // of a coordinator
	done     chan struct{}

	leaving sync.Mutex // held by Leave
	mu      sync.Mutex
	lease   lease
	held    int64         // create revision of the keys, since they were taken for the last time
	era     int64         // in which that was
	left    bool          // by Leave
	gone    chan struct{} // closed when left is set
}

// acquire creates key, and further keys, under a lease of their own. It returns nil without an error when key exists. In the same transaction the
// member is recorded as joined, so that a loss can be told from leaving.
func acquire(ctx context.Context, r *registry, member Member, key, value string, further ...string) (*membership, error) {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	m, keys := &membership{registry: r, member: member, keys: append([]string{key}, further...), value: value, done: make(chan struct{}),
		gone: make(chan struct{})}, []string{key}
	if member != (Member{}) {
		m.record = r.prefix + lossKey(member)
		keys = append(keys, m.record)
	}
	if member != (Member{}) || key == r.prefix+ownerKey {
		m.eraKey = r.prefix + eraKey
		keys = append(keys, m.eraKey)
	}
	if member.Role == job.Role_COORDINATOR {
		m.state = newState(m)
	}
	for {
		now, err := r.store.get(ctx, keys...)
		if _, exists := now[key]; exists || err != nil {
			return nil, r.storeFault(ctx, key, err)
		}
		if ok, err := m.create(ctx, now); err != nil {
			return nil, r.storeFault(ctx, key, err)
		} else if ok {
			r.running.Go(m.keep)
			return m, nil
		}
	}
}

// create tries to create the keys, on the condition that the first is absent and that the loss record and the era are those that the caller has read.
func (m *membership) create(ctx context.Context, v view) (bool, error) {
	if m.record != "" {
		m.losses = parseLossRecord(v[m.record].value).total()
	}
	over := overOf(eraOf(v[m.eraKey]))
	revision, ok, err := m.take(ctx, v, lossRecord{how: recordJoined, losses: m.losses, over: over})
	m.created = over + revision
	if m.state != nil {
		m.state.era = m.inEra()
	}
	return ok, err
}

// take puts the keys under a new lease, together with a loss record, on the condition that the first key, the record and the era are as the caller has read
// them. It returns the create revision of the keys.
func (m *membership) take(ctx context.Context, v view, joined lossRecord) (int64, bool, error) {
	key, record := v[m.keys[0]], v[m.record]
	s := m.registry.store
	l, err := s.grant(ctx)
	if err != nil {
		return 0, false, err
	}
	t := txn{when: []condition{changed(m.keys[0], key.modified)}}
	lasting, era := m.lasting(v[m.eraKey])
	t.puts = append(t.puts, lasting...)
	if m.eraKey != "" {
		t.when = append(t.when, changed(m.eraKey, v[m.eraKey].modified))
	}
	for _, k := range m.keys {
		t.puts = append(t.puts, put{key: k, value: m.value, lease: l})
	}
	if m.record != "" {
		t.when = append(t.when, changed(m.record, record.modified))
		t.puts = append(t.puts, put{key: m.record, value: joined.String()})
	}
	revision, ok, err := m.registry.commit(ctx, t, func() (int64, bool) {
		now, err := s.get(ctx, m.keys[0])
		return now[m.keys[0]].modified, err == nil && now[m.keys[0]].lease == l.id()
	})
	if err != nil || !ok {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = l.revoke(cleanup) // if this fails, the lease ends because nobody renews it
		return 0, false, err
	}
	held := cmp.Or(key.created, revision)
	m.mu.Lock()
	m.lease, m.held, m.era = l, held, era
	m.mu.Unlock()
	return held, true, nil
}

func (m *membership) Member() Member              { return m.member }
func (m *membership) Done() <-chan struct{}       { return m.done }
func (m *membership) Incarnation() id.Incarnation { return id.Incarnation(m.created) }
func (m *membership) Fence() id.Fence             { return id.Fence(m.created) }

// Leave records the member as left and removes its keys in one transaction, on the condition that the first key is the one that it holds. If its lease
// has ended, but nobody has its place yet, the condition is that the loss record is its own.
func (m *membership) Leave(ctx context.Context) error {
	m.leaving.Lock()
	defer m.leaving.Unlock()
	if m.hasLeft() {
		return nil
	}
	r := m.registry
	ctx, cancel := r.scope(ctx)
	defer cancel()
	left := lossRecord{how: recordLeft, losses: m.losses}.String()
	held, _ := m.holds()
	t := txn{when: []condition{created(m.keys[0], held)}, deletes: m.keys}
	if m.record != "" {
		t.puts = []put{{key: m.record, value: left}}
	}
	for {
		var now view
		// The record of a lost member, or of the next holder of its key, counts one loss more.
		_, ok, err := r.commit(ctx, t, func() (int64, bool) {
			if m.record == "" {
				return 0, false
			}
			now, _ = r.store.get(ctx, m.keys[0], m.record, m.eraKey)
			return 0, now[m.keys[0]].created == 0 && now[m.record].value == left
		})
		if err == nil && !ok && now == nil && m.record != "" {
			err = errChanged // and it is not known how
		}
		key, record := now[m.keys[0]], now[m.record]
		switch {
		case err != nil:
			return r.storeFault(ctx, m.keys[0], err)
		case ok:
			m.mu.Lock()
			m.left = true
			l := m.lease
			m.mu.Unlock()
			close(m.gone)
			_ = l.revoke(ctx) // a lease without keys does no harm
			return nil
		case !m.knows(now):
			return r.storeFault(ctx, m.keys[0], errDataLost)
		case m.record == "" || !m.owns(record):
			return fault.E(fault.Fenced, fault.At(m.keys[0]), fault.Got("a lease that was lost before leaving"))
		}
		t.when = []condition{changed(m.keys[0], key.modified), changed(m.record, record.modified)}
	}
}

// Live looks at the keys of members and at their loss records, which know their incarnations.
func (r *registry) Live(ctx context.Context) (map[Member]id.Incarnation, error) {
	live := map[Member]id.Incarnation{}
	for _, key := range roleKeys {
		v, err := r.look(ctx, r.prefix+key)
		if err != nil {
			return nil, err
		}
		for key := range v {
			if m, ok := memberOf(strings.TrimPrefix(key, r.prefix)); ok {
				live[m] = id.Incarnation(incarnationOf(v[r.prefix+lossKey(m)]))
			}
		}
	}
	return live, nil
}

// RevokeLease declares the member lost, and ends its lease. Every membership has a lease of its own, so a process that has taken the key in between
// keeps it.
func (r *registry) RevokeLease(ctx context.Context, m Member, incarnation id.Incarnation) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	key, recordKey := r.prefix+memberKey(m), r.prefix+lossKey(m)
	for {
		v, err := r.store.get(ctx, key, recordKey)
		record := v[recordKey]
		if err != nil || !parseLossRecord(record.value).joined() || incarnation != 0 && incarnation != id.Incarnation(incarnationOf(record)) {
			return r.storeFault(ctx, key, err)
		}
		ok, err := declareLost(ctx, r, m, v[key], record)
		switch {
		case err != nil:
			return r.storeFault(ctx, key, err)
		case ok && v[key].lease != 0:
			return r.storeFault(ctx, key, r.store.revoke(ctx, v[key].lease))
		case ok:
			return nil
		}
	}
}

// declareLost ends the place of a member in one transaction, if its key and its loss record are as the caller has read them. After that the member
// cannot take its key anew.
func declareLost(ctx context.Context, r *registry, m Member, key, record entry) (bool, error) {
	lost := lossRecord{how: recordLost, losses: parseLossRecord(record.value).losses}
	t := txn{when: []condition{changed(r.prefix+memberKey(m), key.modified), changed(r.prefix+lossKey(m), record.modified)},
		puts: []put{{key: r.prefix + lossKey(m), value: lost.String()}}}
	if key.created != 0 {
		t.deletes = []string{r.prefix + memberKey(m)}
		if m.Role == job.Role_COORDINATOR {
			t.deletes = append(t.deletes, r.prefix+addressKey)
		}
	}
	_, ok, err := r.commit(ctx, t, nil)
	return ok, err
}

// Forget removes all keys of the job but the numbers of its members, at one revision.
func (r *registry) Forget(ctx context.Context) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	t := txn{clears: []string{r.prefix + stateKey}, deletes: []string{r.prefix + commitKey}}
	for _, key := range roleKeys {
		t.clears = append(t.clears, r.prefix+key+"/", r.prefix+key+lossSuffix)
	}
	_, _, err := r.commit(ctx, t, nil)
	return r.storeFault(ctx, r.prefix, err)
}

// Entry reads one key.
func (r *registry) Entry(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	key = r.prefix + stateKey + key
	v, err := r.store.get(ctx, key)
	if e, exists := v[key]; exists {
		return []byte(e.value), nil
	}
	return nil, r.storeFault(ctx, key, err)
}

// Claim creates the key of the listener.
func (r *registry) Claim(ctx context.Context) (Membership, error) {
	owner, err := acquire(ctx, r, Member{}, r.prefix+ownerKey, "")
	if owner == nil && err == nil {
		err = fault.E(fault.Fenced, fault.At(r.prefix+ownerKey), fault.Got("another listener that runs a job of this name"),
			fault.Want("another name"), fault.Hint("a listener that was killed holds the name until its lease has ended"))
	}
	return membershipOf(owner, err)
}

// Inherit is Claim of a job whose listener has died, by the one after it, which knows that: it holds a lock that only one of them can have. The members of the
// job stay.
func Inherit(ctx context.Context, of Registry) (Membership, error) {
	r, ok := of.(*registry)
	if !ok {
		return nil, fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("no registry of this package"))
	}
	scoped, cancel := r.scope(ctx)
	defer cancel()
	if _, _, err := r.commit(scoped, txn{deletes: []string{r.prefix + ownerKey}}, nil); err != nil {
		return nil, r.storeFault(ctx, r.prefix+ownerKey, err)
	}
	return r.Claim(ctx)
}

// Remove clears the prefix of the job in one transaction, with the key of the listener.
func (r *registry) Remove(ctx context.Context, owner Membership) error {
	m, ok := owner.(*membership)
	if !ok {
		return fault.E(fault.InvalidArgument, fault.At(r.prefix), fault.Got("no membership of this package"))
	}
	ctx, cancel := r.scope(ctx)
	defer cancel()
	held, _ := m.holds()
	_, ok, err := r.commit(ctx, txn{when: []condition{created(r.prefix+ownerKey, held)}, clears: []string{r.prefix + "/"}}, nil)
	if ok && r.removed != nil {
		err = r.removed(ctx)
	}
	return r.storeFault(ctx, r.prefix, err)
}

// RemoveAbandoned looks for jobs without a key that has a lease. The transaction that removes one has the condition that there is no listener yet.
func (r *registry) RemoveAbandoned(ctx context.Context) (removed []string, others bool, err error) {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	lives := map[string]bool{}
	err = r.store.scan(ctx, root, func(key string, e entry) error {
		if name, _, ok := strings.Cut(strings.TrimPrefix(key, root), "/"); ok && !strings.HasPrefix(key, nodesPrefix) {
			lives[name] = lives[name] || e.lease != 0
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		if others = others || lives[name]; lives[name] || err != nil {
			continue
		}
		var ok bool
		prefix := Prefix(name)
		_, ok, err = r.commit(ctx, txn{when: []condition{absent(prefix + ownerKey), absent(prefix + lockKey)}, clears: []string{prefix + "/"}}, nil)
		if ok {
			removed = append(removed, name)
		}
	}
	return removed, others, r.storeFault(ctx, root, err)
}

// SetDesired puts the number of pservers without a lease: it stays when the member that wrote it goes.
func (r *registry) SetDesired(ctx context.Context, servers int) error {
	return setCount(ctx, r, desiredKey, servers)
}

// SetTrainers puts the number of trainers, without a lease too.
func (r *registry) SetTrainers(ctx context.Context, trainers int) error {
	return setCount(ctx, r, wantedKey, trainers)
}

func setCount(ctx context.Context, r *registry, key string, n int) error {
	if err := checkCount(n); err != nil {
		return err
	}
	ctx, cancel := r.scope(ctx)
	defer cancel()
	_, _, err := r.commit(ctx, txn{puts: []put{{key: r.prefix + key, value: fmt.Sprint(n)}}}, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[r.prefix+key] = fmt.Sprint(n)
	return r.storeFault(ctx, r.prefix+key, err)
}

// checkCount bounds a number of members before anything is made of that size.
func checkCount(n int) error {
	if n < 1 || n > maxMembers {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Gotf("%d members of a role", n), fault.Wantf("1 to %d", maxMembers))
	}
	return nil
}
