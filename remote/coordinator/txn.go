package coordinator

import (
	"net/url"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

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
