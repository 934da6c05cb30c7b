package queue

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Step lets an event happen at now. After an error nothing has changed.
func (q *Queue) Step(now time.Duration, e Event) (Effects, error) {
	s := &step{Queue: *q, now: q.policy.Epoch.UnixMilli() + now.Milliseconds()}
	if err := e.apply(s); err != nil {
		return Effects{}, err
	}
	s.settle()
	if s.head != q.head {
		s.putHead()
	}
	s.effects.Changes = append(s.effects.Changes, s.late...)
	s.effects.Exhausted = s.Exhausted() && !q.Exhausted()
	*q = s.Queue
	return s.effects, nil
}

// step is a copy of a queue to which an event happens.
type step struct {
	Queue
	now     int64 // milliseconds since 1970
	effects Effects
	late    []Change // deletions of what the head does not need any more
}

func (s *step) note(what string, w *work, rank int) {
	n := Note{What: what, Pass: s.pass, Task: -1, Rank: rank}
	if w != nil {
		n.Task, n.Failures, n.Reason = w.id, w.failures, w.reason
	}
	s.effects.Notes = append(s.effects.Notes, n)
}

func (q *Queue) fault(kind fault.Kind, got, want string) error {
	return fault.E(kind, fault.At("dataset "+fault.Quote(q.name)), fault.Got(got), fault.Want(want))
}

// known refuses what cannot be a task or a rank.
func (q *Queue) known(rank int, t *rpc.Task) error {
	switch {
	case rank < 0 || rank >= maxRank:
		return q.fault(fault.Foreign, fmt.Sprintf("trainer %d", rank), fmt.Sprintf("0 to %d", maxRank-1))
	case t != nil && (t.Id < 0 || t.Id >= q.cut.tasks):
		return q.fault(fault.NotFound, fmt.Sprintf("task %d", t.Id), fmt.Sprintf("0 to %d", q.cut.tasks-1))
	}
	return nil
}

// settle ends the pass, and the data, when nothing is left, also when the last task was discarded.
func (s *step) settle() {
	if s.policy.Sync {
		s.settleSync()
	} else {
		s.settleAsync()
	}
}

func (q *Queue) isDiscarded(id int64) bool {
	_, ok := q.discarded.get(key{id})
	return ok
}

// open reports whether more files may come.
func (q *Queue) open() bool { return q.following && !q.closed }

func (s *step) end() {
	if !s.ended {
		s.ended = true
		s.note("data ended", nil, -1)
	}
}
