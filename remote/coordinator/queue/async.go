package queue

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

func (e Get) apply(s *step) error {
	if err := s.known(e.Rank, nil); err != nil {
		return err
	}
	if s.policy.Sync {
		return s.read(e)
	}
	trainer, _ := s.ranks.get(key{int64(e.Rank)})
	switch {
	case trainer == nil || trainer.incarnation < e.Incarnation:
		trainer = &rank{incarnation: e.Incarnation}
	case trainer.incarnation > e.Incarnation || trainer.gone:
		return s.fault(fault.Stale, fmt.Sprintf("a request of trainer %d as of generation %d", e.Rank, e.Incarnation),
			fmt.Sprintf("one later than generation %d", trainer.incarnation))
	case e.Request < trainer.request:
		return s.fault(fault.Stale, fmt.Sprintf("request %d of trainer %d", e.Request, e.Rank), fmt.Sprintf("request %d or later", trainer.request))
	case e.Request == trainer.request && trainer.granted.epoch > 0:
		if p := s.holds(e.Rank, e.Incarnation, trainer.granted); p != nil {
			s.effects.Grant.Task = s.grant(&p.work)
			s.putRank(e.Rank, trainer) // a change, so that a coordinator that was deposed grants nothing
			return nil
		}
	}
	switch {
	case s.ended:
		s.effects.Grant = Grant{EndOfPass: true, EndOfData: true}
	case e.Pass < s.pass:
		s.effects.Grant = Grant{EndOfPass: true}
	case e.Pass > s.pass+1:
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a request for pass %d", e.Pass), fmt.Sprintf("pass %d", s.pass))
	case e.Pass == s.pass+1 || s.given == s.cut.tasks && s.returned.len == 0:
		s.effects.Grant = Grant{Wait: true}
	default:
		s.dispatch(e, trainer)
	}
	return nil
}

// dispatch gives a trainer the first task that was never given in this pass, or the first that came back.
func (s *step) dispatch(e Get, trainer *rank) {
	w := work{id: s.given}
	if s.given < s.cut.tasks {
		s.given++
	} else {
		k, back, _ := s.returned.first()
		s.returned = s.returned.delete(k)
		w = *back
		s.retried += s.left(&w).records()
	}
	w.epoch++
	s.hold(&pending{work: w, rank: e.Rank, incarnation: e.Incarnation, dispatched: s.now, deadline: s.now + s.timeout().Milliseconds()})
	s.effects.Grant.Task = s.grant(&w)
	s.putRank(e.Rank, &rank{incarnation: e.Incarnation, request: e.Request, granted: dispatch{s.pass, w.id, w.epoch}, finished: trainer.finished})
}

// left returns what is left of a task.
func (q *Queue) left(w *work) spans {
	if w.left != nil {
		return w.left
	}
	return spans{q.cut.task(w.id)}
}

func (q *Queue) grant(w *work) *rpc.Task {
	left := q.left(w)
	t := &rpc.Task{Id: w.id, Epoch: w.epoch, Pass: q.pass, Dataset: q.name, Records: left.ranges()}
	if q.following {
		t.Files = q.cut.holding(left)
	}
	return t
}

// timeout is the time that the next task may take.
func (q *Queue) timeout() time.Duration {
	if q.average == 0 {
		return q.policy.MaxTimeout
	}
	return min(max(TimeoutFactor*q.average, q.policy.MinTimeout), q.policy.MaxTimeout)
}

// hold enters a pending task.
func (s *step) hold(p *pending) {
	s.pending = s.pending.put(key{p.id}, p)
	s.held = s.held.put(key{int64(p.rank), p.id}, p.id)
	s.deadlines = s.deadlines.put(key{p.deadline, p.id}, p.id)
	s.putTask(p.id, p.entry())
}

// release takes a task out of the pending queue.
func (s *step) release(p *pending) {
	s.pending = s.pending.delete(key{p.id})
	s.held = s.held.delete(key{int64(p.rank), p.id})
	s.deadlines = s.deadlines.delete(key{p.deadline, p.id})
}

func (s *step) settleAsync() {
	for !s.ended {
		for s.given < s.cut.tasks && s.isDiscarded(s.given) {
			s.given++
		}
		if s.given < s.cut.tasks || s.returned.len > 0 || s.pending.len > 0 || s.open() {
			return
		}
		if s.pass+1 >= int32(max(s.policy.Passes, 1)) || s.Exhausted() {
			s.end()
			return
		}
		s.note("pass ended", nil, -1)
		s.pass++
		s.given = 0
	}
}
