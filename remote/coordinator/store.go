package coordinator

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// store is the one way to durable state: the entries of the job in the cluster's store, and the queues that are made of them.
//
//	request --> transact --> group --> applied to a copy --> Commit, under the lock --> the copy is the state --> answer
//
// One goroutine commits. All requests that wait when a transaction begins are in it, as far as they fit. Nobody is answered before the commit has
// ended, and a request that fails changes nothing.
type store struct {
	*core
	steps func() uint64 // written so far; durable with whatever else changes
	ops   chan *op      // to the goroutine that commits
	// reread says that a commit has failed, so that it is not known what is durable. It belongs to the goroutine that commits.
	reread bool
	queues map[string]*queue.Queue // as they are durable; by name of the dataset. core.monitor guards the field, and nobody changes the map
}

// Keys of durable entries.
const (
	dataKey       = "data/" // of each dataset
	generationKey = "job/generation"
	settledKey    = "job/settled"
	leftKey       = "job/left/"
	saverKey      = SaverEntry
	stepsKey      = StepsEntry
	finishedKey   = "job/finished"
	backKey       = "job/back"
	placementKey  = "job/placement"
)

// SaverEntry is there from the moment on at which a trainer was elected to save the model, a state.Saver.
const SaverEntry = "job/saver"

// StepsEntry is the durable number of steps of the job, a state.Steps.
const StepsEntry = "job/steps"

// maxGroup is the number of entries beyond which no further request is taken into a transaction. An event of a queue changes few.
const maxGroup = cluster.MaxChanges - 2*queue.MaxStepChanges

// An op is a request that may change what is durable.
type op struct {
	apply func(*txn) error
	alone bool // in a transaction of its own, all or nothing
	asks  bool // whether the lock is held; it changes nothing
	err   error
	done  chan error
}

// transact applies a request and returns when its changes are durable. After an error of apply or of the commit nothing has changed. If ctx ends first,
// transact returns while apply may still run on another goroutine, and the changes may become durable later. So callers read what apply sets only
// after a transact without error, and apply sets no named result: a return writes it.
func (s *store) transact(ctx context.Context, apply func(*txn) error) error {
	return s.do(ctx, &op{apply: apply, done: make(chan error, 1)})
}

// transactAlone is transact for changes that nobody may see in part. No number of steps is added to them.
func (s *store) transactAlone(ctx context.Context, apply func(*txn) error) error {
	return s.do(ctx, &op{apply: apply, alone: true, done: make(chan error, 1)})
}

// holdsLock fails, and the coordinator ends, if another one has the lock.
func (s *store) holdsLock(ctx context.Context) error {
	return s.do(ctx, &op{apply: func(*txn) error { return nil }, alone: true, asks: true, done: make(chan error, 1)})
}

func (s *store) do(ctx context.Context, o *op) error {
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return gaveUp(ctx, "requests before this one")
	case <-s.done:
		s.monitor.Lock()
		defer s.monitor.Unlock()
		return s.whyEnded()
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return gaveUp(ctx, "the store")
	}
}

// step lets an event of the coordinator's own happen to a queue.
func (s *store) step(dataset string, e queue.Event) error {
	return s.transact(s.ctx, func(t *txn) error {
		_, err := t.step(dataset, e)
		return err
	})
}

// current returns the queues as they are durable now. They must not be changed.
func (s *store) current() (queues map[string]*queue.Queue) {
	s.locked(func() { queues = s.queues })
	return queues
}

// commits applies requests in groups until the job ends.
func (s *store) commits() {
	for {
		select {
		case first := <-s.ops:
			for first != nil {
				first = s.commit(first)
			}
		case <-s.done:
			return
		}
	}
}

// commit commits a group of requests, and returns one that came meanwhile and has to be committed alone.
func (s *store) commit(first *op) (alone *op) {
	if err := s.mayCommit(first); err != nil {
		first.done <- err
		return nil
	}
	if err := s.readAgain(); err != nil {
		first.done <- err
		return nil
	}
	t := s.begin()
	group := []*op{first}
	t.apply(first)
	for more := !first.alone; more && len(t.keys) < maxGroup; {
		select {
		case o := <-s.ops:
			if alone, more = o, !o.alone; more {
				alone = nil
				group = append(group, o)
				t.apply(o)
			}
		default:
			more = false
		}
	}
	var err error
	var later []*op
	if first.asks {
		err = s.attempt(nil)
	}
	if len(t.changes) > 0 {
		if !first.alone {
			t.count()
		}
		group, later, err = s.durable(t, group)
	}
	s.locked(func() {
		if err == nil && group != nil {
			t.take()
		} else if errors.Is(err, fault.Fenced) {
			s.finish(err)
		}
	})
	s.reread = err != nil
	for _, o := range group {
		if o.err == nil {
			o.err = asUnavailable(err)
		}
		o.done <- o.err
	}
	for _, o := range later {
		for o != nil {
			o = s.commit(o)
		}
	}
	return alone
}

// mayCommit refuses requests of a job that goes back: what they ask for is over. The next coordinator answers them.
func (s *store) mayCommit(o *op) error {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	switch {
	case s.ended && s.err != nil:
		return s.whyEnded()
	case s.goesBack && !o.alone:
		return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("a job that goes back to a checkpoint"), fault.Want("the next coordinator"))
	}
	return nil
}

// begin begins a transaction with a copy of the state.
func (s *store) begin() *txn {
	t := &txn{store: s, queues: map[string]*queue.Queue{}, keys: map[string]bool{}}
	for name, q := range s.current() {
		t.queues[name] = q
	}
	return t
}

// distinct keeps the last change of each key, if those fit into one transaction, which is atomic. Most requests of a group change the same head. If they
// do not fit, distinct returns all changes in order, because only the first of them may become durable.
func distinct(changes []cluster.Change) []cluster.Change {
	last, bytes := make([]cluster.Change, 0, len(changes)), 0
	seen := make(map[string]bool, len(changes))
	for _, c := range slices.Backward(changes) {
		if !seen[c.Key] {
			seen[c.Key] = true
			last, bytes = append(last, c), bytes+len(c.Key)+len(c.Value)
		}
	}
	if len(last) > cluster.MaxChanges || bytes > cluster.MaxBytes/2 { // the other half is for what stands before keys
		return changes
	}
	return last
}

// readAgain finds out what is durable after a commit that has failed.
func (s *store) readAgain() error {
	if !s.reread {
		return nil
	}
	entries, err := s.lead.State.Load(s.ctx)
	if err != nil {
		return err
	}
	queues, err := s.restore(s.ctx, s.lead, entries)
	if err != nil {
		return err
	}
	s.locked(func() { s.queues = queues })
	s.reread = false
	return nil
}

// restore makes the queues of their entries.
func (s *store) restore(ctx context.Context, lead Lead, entries map[string][]byte) (map[string]*queue.Queue, error) {
	parts := map[string]map[string][]byte{}
	for key, value := range entries {
		escaped, rest, ok := strings.Cut(strings.TrimPrefix(key, dataKey), "/")
		name, err := url.PathUnescape(escaped)
		if !strings.HasPrefix(key, dataKey) || !ok || err != nil {
			continue
		}
		if parts[name] == nil {
			parts[name] = map[string][]byte{}
		}
		parts[name][rest] = value
	}
	queues := map[string]*queue.Queue{}
	t := &txn{store: s, queues: queues, keys: map[string]bool{}}
	for name, part := range parts {
		q, effects, err := queue.Restore(s.cfg.queuePolicy(s.epoch), name, part, s.now())
		if err != nil {
			return nil, err
		}
		if q == nil {
			continue
		}
		if q.Exhausted() {
			return nil, exhausted(name, effects)
		}
		queues[name] = q
		t.enter(name, effects)
	}
	if len(t.changes) > 0 {
		err := lead.State.Commit(ctx, t.changes)
		return queues, err
	}
	return queues, nil
}

// A txn is a copy of the queues, to which a group of requests is applied. One commit makes all their changes durable, and then the copy becomes the
// state. If the commit fails, the copy is thrown away.
type txn struct {
	store   *store
	queues  map[string]*queue.Queue
	changes []cluster.Change
	keys    map[string]bool
	notes   []note
	saver   *uint32  // that it elects, nil for none
	after   []func() // called with the monitor held when all is durable
}

type note struct {
	dataset string
	queue.Note
}

// apply lets a request happen to the copy, wholly or not at all.
func (t *txn) apply(o *op) {
	changes, notes, after, saver := len(t.changes), len(t.notes), len(t.after), t.saver
	before := make(map[string]*queue.Queue, len(t.queues))
	for name, q := range t.queues {
		before[name] = q
	}
	if o.err = o.apply(t); o.err != nil {
		t.queues, t.changes, t.notes, t.after, t.saver = before, t.changes[:changes], t.notes[:notes], t.after[:after], saver
	}
	for _, c := range t.changes[changes:] {
		t.keys[c.Key] = true
	}
}

// take makes the copy the state. The monitor is held.
func (t *txn) take() {
	t.store.queues = t.queues
	for _, f := range t.after {
		f()
	}
	for _, n := range t.notes {
		t.store.logNote(n)
	}
	if len(t.changes) > 0 {
		t.store.monitor.Broadcast()
	}
}

// create makes a queue.
func (t *txn) create(d queue.Dataset) error {
	q, effects, err := queue.New(t.store.cfg.queuePolicy(t.store.epoch), d)
	if err != nil {
		return err
	}
	t.queues[d.Name] = q
	t.enter(d.Name, effects)
	return nil
}

// queue returns a copy of a queue that the transaction may change.
func (t *txn) queue(name string) (*queue.Queue, error) {
	q, ok := t.queues[name]
	if !ok {
		return nil, fault.E(fault.NotFound, fault.At("dataset "+fault.Quote(name)), fault.Got("a request before the dataset was reported"))
	}
	q = q.Clone()
	t.queues[name] = q
	return q, nil
}

// step lets an event happen to a queue.
func (t *txn) step(name string, e queue.Event) (queue.Effects, error) {
	q, err := t.queue(name)
	if err != nil {
		return queue.Effects{}, err
	}
	effects, err := q.Step(t.store.now(), e)
	if err == nil {
		t.enter(name, effects)
	}
	return effects, err
}

// enter notes what a queue wants to have durable.
func (t *txn) enter(name string, effects queue.Effects) {
	for _, c := range effects.Changes {
		t.changes = append(t.changes, cluster.Change{Key: queueKey(name) + c.Key, Value: c.Value})
	}
	for _, n := range effects.Notes {
		t.notes = append(t.notes, note{name, n})
	}
	if effects.Exhausted {
		t.then(func() { t.store.finish(exhausted(name, effects)) })
	}
}

// put enters an entry of the job.
func (t *txn) put(key string, m proto.Message) error {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.Internal, key, err)
	}
	if b == nil {
		b = []byte{}
	}
	t.changes = append(t.changes, cluster.Change{Key: key, Value: b})
	return nil
}

// count adds the number of steps to what is made durable. In async mode the next coordinator counts on from it. In sync mode steps are numbered by
// rounds; there it tells the next coordinator how many steps there were if all trainers have left.
func (t *txn) count() {
	var steps uint64
	t.store.locked(func() { steps = t.store.steps() })
	if steps > 0 {
		_ = t.put(stepsKey, &state.Steps{Steps: steps}) // it always encodes
	}
}

// then calls f with the monitor held when the transaction is durable.
func (t *txn) then(f func()) { t.after = append(t.after, f) }

func queueKey(dataset string) string { return dataKey + url.PathEscape(dataset) + "/" }

// exhausted is the error of a job that has discarded every task of a dataset.
func exhausted(dataset string, effects queue.Effects) error {
	f := fault.E(fault.Corrupt, fault.At("dataset "+fault.Quote(dataset)), fault.Got("no task that any trainer could do"),
		fault.Hint("look at the trainers' logs"))
	if i := slices.IndexFunc(effects.Notes, func(n queue.Note) bool { return n.Reason != "" }); i >= 0 {
		f.Got += "; the last one: " + effects.Notes[i].Reason
	}
	return f
}

// logNote logs what happened in a queue. The monitor is held.
func (s *store) logNote(n note) {
	switch {
	case n.Task < 0:
		s.cfg.Log.Info(n.What, "dataset", n.dataset, "pass", n.Pass)
	default:
		s.cfg.Log.Warn(n.What, "dataset", n.dataset, "pass", n.Pass, "task", n.Task, "trainer", n.Rank, "failures", n.Failures, "reason", n.Reason)
	}
}
