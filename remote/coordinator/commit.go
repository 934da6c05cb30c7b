package coordinator

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"google.golang.org/protobuf/proto"
)

// Keys of durable entries.
const (
	dataKey       = "data/" // of each dataset
	generationKey = "job/generation"
	settledKey    = "job/settled"
	leftKey       = "job/left/"
	saverKey      = "job/saver"
	stepsKey      = "job/steps"
)

// maxGroup is the number of entries beyond which no further request is taken into a transaction. An event of a queue changes few.
const maxGroup = cluster.MaxChanges - 2*queue.MaxStepChanges

// An op is a request that may change what is durable.
type op struct {
	apply func(*txn) error
	err   error
	done  chan error
}

// A txn is a copy of the queues to which requests happen. What they change is made durable at once for all of them, and then the copy takes the place
// of what it was made of; if that fails it is thrown away.
type txn struct {
	server  *Server
	queues  map[string]*queue.Queue
	changes []cluster.Change
	keys    map[string]bool
	notes   []note
	saver   *uint32  // that it elects, nil for none
	after   []func() // called with Server.mu held when all is durable
}

type note struct {
	dataset string
	queue.Note
}

// transact applies a request, makes what it changes durable, and returns. It fails with the error of apply, which has changed nothing then, or
// because nothing could be made durable, and nothing has changed either.
func (s *Server) transact(ctx context.Context, apply func(*txn) error) error {
	o := &op{apply: apply, done: make(chan error, 1)}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return gaveUp(ctx, "requests before this one")
	case <-s.done:
		return s.whyEnded()
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return gaveUp(ctx, "the store")
	}
}

func (s *Server) whyEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return passing(s.err)
	}
	return fault.E(fault.Stale, fault.At("coordinator"), fault.Got("a request after the end of the job"))
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
	effects, err := q.Step(t.server.now(), e)
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
		t.then(func() { t.server.finish(exhausted(name, effects)) })
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

// count keeps the number of steps beside what changes anyway. Those of a sync job are numbered by its rounds: there it tells the next coordinator,
// when all trainers have left, how many there were.
func (t *txn) count() {
	s := t.server
	s.mu.Lock()
	steps := s.steps.steps
	s.mu.Unlock()
	if steps > 0 {
		_ = t.put(stepsKey, &state.Steps{Steps: steps}) // it always encodes
	}
}

// then calls f with Server.mu held when the transaction is durable.
func (t *txn) then(f func()) { t.after = append(t.after, f) }

func queueKey(dataset string) string { return dataKey + url.PathEscape(dataset) + "/" }

// exhausted is why a job ends of whose dataset every task was discarded.
func exhausted(dataset string, effects queue.Effects) error {
	f := fault.E(fault.Corrupt, fault.At("dataset "+fault.Quote(dataset)), fault.Got("no task that any trainer could do"),
		fault.Hint("look at the trainers' logs"))
	if i := slices.IndexFunc(effects.Notes, func(n queue.Note) bool { return n.Reason != "" }); i >= 0 {
		f.Got += "; the last one: " + effects.Notes[i].Reason
	}
	return f
}

// say logs a note. s.mu is held.
func (s *Server) say(n note) {
	switch {
	case n.Task < 0:
		s.cfg.Log.Info(n.What, "dataset", n.dataset, "pass", n.Pass)
	default:
		s.cfg.Log.Warn(n.What, "dataset", n.dataset, "pass", n.Pass, "task", n.Task, "trainer", n.Rank, "failures", n.Failures, "reason", n.Reason)
	}
}

// commits applies requests in groups until the job ends. All that wait when a transaction begins are in it, as far as they fit.
func (s *Server) commits() {
	for {
		select {
		case first := <-s.ops:
			s.commit(first)
		case <-s.done:
			return
		}
	}
}

func (s *Server) commit(first *op) {
	if err := s.readAgain(); err != nil {
		first.done <- err
		return
	}
	s.mu.Lock()
	t := &txn{server: s, queues: map[string]*queue.Queue{}, keys: map[string]bool{}}
	for name, q := range s.queues {
		t.queues[name] = q
	}
	s.mu.Unlock()
	group := []*op{first}
	t.apply(first)
	for more := true; more && len(t.keys) < maxGroup; {
		select {
		case o := <-s.ops:
			group = append(group, o)
			t.apply(o)
		default:
			more = false
		}
	}
	var err error
	if len(t.changes) > 0 {
		t.count()
		err = s.lead.State.Commit(s.ctx, distinct(t.changes))
	}
	s.mu.Lock()
	if err == nil {
		t.take()
	} else if errors.Is(err, fault.Fenced) {
		s.finish(err)
	}
	s.reread = err != nil
	s.mu.Unlock()
	for _, o := range group {
		if o.err == nil {
			o.err = passing(err)
		}
		o.done <- o.err
	}
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

// take makes the copy what there is. Server.mu is held.
func (t *txn) take() {
	t.server.queues = t.queues
	for _, f := range t.after {
		f()
	}
	for _, n := range t.notes {
		t.server.say(n)
	}
	if len(t.changes) > 0 {
		t.server.broadcast()
	}
}

// distinct leaves the last change of each key where all of them fit into one transaction then, which is atomic. Most requests of a group change the
// same head. Where they do not fit the order of all changes counts: what is durable of them must be a beginning.
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

// beside is what is durable of the job beside its members.
type beside struct {
	saver *uint32
	steps uint64
}

// restoreJob reads the entries of the job itself.
func restoreJob(entries map[string][]byte) (out generation.State, extra beside, err error) {
	read := func(key string, m proto.Message) bool {
		b, ok := entries[key]
		if ok && err == nil {
			err = fault.Wrap(fault.Corrupt, "entry "+key, proto.Unmarshal(b, m))
		}
		return ok && err == nil
	}
	var g state.Generation
	if read(generationKey, &g) {
		out.Number, out.Round = g.Number, g.Round
		for _, m := range g.Members {
			out.Members = append(out.Members, generation.Member{Rank: m.Rank, Since: m.Since, Incarnation: m.Incarnation})
		}
	}
	var settled state.Settled
	if read(settledKey, &settled) {
		out.Settled = settled.Generation
	}
	for key := range entries {
		var left state.Left
		if strings.HasPrefix(key, leftKey) && read(key, &left) {
			out.Left = append(out.Left, left.Rank)
		}
	}
	var saves state.Saver
	if read(saverKey, &saves) {
		extra.saver = &saves.Rank
	}
	var steps state.Steps
	if read(stepsKey, &steps) {
		extra.steps = steps.Steps
	}
	return out, extra, err
}

// entryOf is the durable form of a generation.
func entryOf(g generation.Generation) *state.Generation {
	e := &state.Generation{Number: g.Number, Round: g.Round}
	for _, m := range g.Members {
		e.Members = append(e.Members, &state.Member{Rank: m.Rank, Since: m.Since, Incarnation: m.Incarnation})
	}
	return e
}
