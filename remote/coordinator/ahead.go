package coordinator

import (
	"context"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// This file lets the rounds of a sync job go on while the store does not answer. What is not durable must not be told, with one exception: tasks of the
// current pass of sync mode. They follow from the position of the trainer that asks, and nobody has them; that they were given is kept only to tell how
// far trainers can be. A coordinator that begins without knowing it begins a new generation, whose trainers say how far they are, and ask again. So when a
// commit of nothing else is late, its requests are answered, and such requests that come later too. All others wait.

// storeLate is after how long the store counts as late: far longer than it takes to answer, and far shorter than the rounds of one answer last.
const storeLate = 250 * time.Millisecond

// durable makes a transaction durable, and returns when it is. If the store is late, and the transaction has nothing but tasks of sync mode, its requests
// are answered at once, and group is nil. later are the requests that came meanwhile and have to wait for the transaction. The job fails when a request
// has waited for as long as a job waits for what is missing.
func (s *store) durable(t *txn, group []*op) (left, later []*op, err error) {
	changes := distinct(t.changes)
	done := make(chan error, 1)
	try := func() { done <- s.attempt(changes) }
	go try()
	late := time.NewTimer(storeLate)
	defer late.Stop()
	ahead := false
	var came <-chan *op // nil: nobody else is served
	waits := time.Now() // since when a request has waited
	for {
		select {
		case err := <-done:
			waiting := !ahead || len(later) > 0
			if fault.KindOf(err) != fault.DeadlineExceeded || s.ctx.Err() != nil {
				return group, later, err
			}
			if waiting && time.Since(waits) >= s.cfg.StartDeadline {
				s.Fail(err)
				return group, later, err
			}
			go try() // the same changes: the store finds out whether they were made
		case <-late.C:
			if ahead = t.ahead(); ahead {
				s.answer(t, group)
				group, came = nil, s.ops
			}
		case o := <-came:
			more := s.begin()
			more.apply(o)
			switch {
			case o.asks, o.err == nil && len(more.changes) > 0 && !more.ahead():
				if later = append(later, o); len(later) == 1 {
					waits = time.Now()
				}
			default:
				s.answer(more, []*op{o})
			}
		}
	}
}

// attempt commits changes, for as long as a job waits for what is missing.
func (s *store) attempt(changes []cluster.Change) error {
	ctx := s.ctx
	if s.cfg.StartDeadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.StartDeadline)
		defer cancel()
	}
	return s.lead.State.Commit(ctx, changes)
}

// answer makes a transaction the state before it is durable. The head of a queue, which is all that it changes, is written with the next change of the
// queue.
func (s *store) answer(t *txn, group []*op) {
	s.locked(t.take)
	for _, o := range group {
		o.done <- o.err
	}
}

// ahead reports whether the transaction has nothing but tasks of the current pass of sync mode.
func (t *txn) ahead() bool {
	if t.saver != nil || len(t.after) > 0 || len(t.notes) > 0 {
		return false
	}
	before := t.store.current()
	for key := range t.keys {
		known := key == stepsKey
		for name := range before {
			known = known || key == queueKey(name)+queue.HeadKey
		}
		if !known {
			return false
		}
	}
	for name, q := range t.queues {
		if before[name] == nil || q != before[name] && !q.AheadOf(before[name]) {
			return false
		}
	}
	return true
}
