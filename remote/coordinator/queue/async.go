package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/wire"
)

func (e TaskWanted) apply(s *step) error {
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
func (s *step) dispatch(e TaskWanted, trainer *rank) {
	w := work{id: s.given}
	if s.given < s.cut.tasks {
		s.given++
	} else {
		k, back, _ := s.returned.first()
		s.returned = s.returned.delete(k)
		w = *back
		s.retried += s.left(&w).Count()
	}
	w.epoch++
	s.hold(&pending{work: w, rank: e.Rank, incarnation: e.Incarnation, dispatched: s.now, deadline: s.now + s.timeout().Milliseconds()})
	s.effects.Grant.Task = s.grant(&w)
	s.putRank(e.Rank, &rank{incarnation: e.Incarnation, request: e.Request, granted: dispatch{s.pass, w.id, w.epoch}, finished: trainer.finished})
}

// left returns what is left of a task.
func (q *Queue) left(w *work) ranges.Set {
	if w.left != nil {
		return w.left
	}
	return ranges.Set{q.cut.task(w.id)}
}

func (q *Queue) grant(w *work) *rpc.Task {
	left := q.left(w)
	t := &rpc.Task{Id: w.id, Epoch: w.epoch, Pass: q.pass, Dataset: q.name, Records: wire.Ranges(left)}
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

// holds returns the pending task of a dispatch, nil when that is over or another's.
func (q *Queue) holds(rank int, incarnation uint64, d dispatch) *pending {
	p, ok := q.pending.get(key{d.task})
	if !ok || d.pass != q.pass || p.epoch != d.epoch || p.rank != rank || p.incarnation != incarnation {
		return nil
	}
	return p
}

// stale refuses word of a dispatch that is over, so that a late trainer cannot decide on what is now another's.
func (s *step) stale(who string, d dispatch) error {
	want := "a task that it has"
	if p, ok := s.pending.get(key{d.task}); ok {
		want = fmt.Sprintf("dispatch %d of pass %d, which trainer %d has", p.epoch, s.pass, p.rank)
	}
	return s.fault(fault.Stale, fmt.Sprintf("word of task %d, dispatch %d of pass %d, from %s", d.task, d.epoch, d.pass, who), want)
}

func (e TaskFinished) apply(s *step) error {
	if err := s.known(e.Rank, e.Task); err != nil {
		return err
	}
	if s.policy.Sync {
		return s.finishSync(e)
	}
	d := dispatch{e.Task.GetPass(), e.Task.GetId(), e.Task.GetEpoch()}
	trainer, _ := s.ranks.get(key{int64(e.Rank)})
	if trainer != nil && trainer.incarnation == e.Incarnation && slices.Contains(trainer.finished, d) {
		return nil
	}
	p := s.holds(e.Rank, e.Incarnation, d)
	if p == nil || trainer == nil {
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), d)
	}
	s.release(p)
	s.putTask(p.id, nil)
	if p.left == nil {
		s.measure(time.Duration(s.now-p.dispatched) * time.Millisecond)
	}
	known := *trainer
	known.finished = append(slices.Clone(trainer.finished[max(0, len(trainer.finished)-rememberedTasks+1):]), d)
	s.putRank(e.Rank, &known)
	return nil
}

// measure moves the average of task times.
func (s *step) measure(took time.Duration) {
	took = max(took, time.Millisecond)
	if s.average == 0 {
		s.average = took
	} else {
		s.average += (took - s.average) / averageWeight
	}
}

func (e TaskFailed) apply(s *step) error {
	if err := s.known(e.Rank, e.Task); err != nil {
		return err
	}
	if s.policy.Sync {
		return s.failSync(e)
	}
	d := dispatch{e.Task.GetPass(), e.Task.GetId(), e.Task.GetEpoch()}
	p := s.holds(e.Rank, e.Incarnation, d)
	if p == nil {
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), d)
	}
	s.back(p, e.Committed, true, e.Reason)
	return nil
}

func (e TaskTimedOut) apply(s *step) error {
	p, ok := s.pending.get(key{e.Task})
	if !ok || e.Pass != s.pass || e.Epoch != p.epoch {
		return s.stale("its deadline", dispatch{e.Pass, e.Task, e.Epoch})
	}
	if s.now >= p.deadline {
		s.back(p, e.Committed, true, fmt.Sprintf("trainer %d took longer than %v", p.rank,
			time.Duration(p.deadline-p.dispatched)*time.Millisecond))
	}
	return nil
}

func (e TrainerLost) apply(s *step) error {
	if err := s.known(e.Rank, nil); err != nil || s.policy.Sync {
		return err
	}
	committed := e.Committed
	var mine []*pending
	for k, id := range s.held.from(key{int64(e.Rank), -1}) {
		if k[0] != int64(e.Rank) {
			break
		}
		if p, _ := s.pending.get(key{id}); p.incarnation <= e.Incarnation {
			mine = append(mine, p)
		}
	}
	if len(mine) > 0 && e.Pass != s.pass {
		return s.fault(fault.Stale, fmt.Sprintf("the ledger of pass %d", e.Pass), fmt.Sprintf("that of pass %d, which has begun", s.pass))
	}
	for _, p := range mine {
		whole := s.left(&p.work).Count()
		left := s.left(&p.work).Without(committed).Count()
		s.back(p, committed, !e.Drained && left == whole, fmt.Sprintf("trainer %d is gone: %s", e.Rank, reasonOf(e.Reason)))
	}
	if t, _ := s.ranks.get(key{int64(e.Rank)}); t == nil || t.incarnation < e.Incarnation || t.incarnation == e.Incarnation && !t.gone {
		s.putRank(e.Rank, &rank{incarnation: e.Incarnation, gone: true})
	}
	return nil
}

// back takes a task from who has it. What is not committed of it goes to the end of the todo queue, or is discarded when it has failed too often.
func (s *step) back(p *pending, committed ranges.Set, failed bool, reason string) {
	s.release(p)
	w := p.work
	left := s.left(&w).Without(committed).Bounded(maxRuns)
	if len(left) == 0 {
		s.putTask(w.id, nil) // done after all
		return
	}
	if w.left != nil || left.Count() < s.left(&w).Count() {
		w.left = left
	}
	if w.reason = reasonOf(reason); failed {
		w.failures++
	}
	if w.pass = s.pass; int64(w.failures) > int64(s.policy.MaxFailures) {
		s.discard(&w, p.rank)
		return
	}
	w.returned = s.returns
	s.returns++
	s.returned = s.returned.put(key{w.returned}, &w)
	s.putTask(w.id, w.entry(state.Task_RETURNED))
	s.note("task came back", &w, p.rank)
}

// discard puts a task away for good.
func (s *step) discard(w *work, rank int) {
	s.discarded = s.discarded.put(key{w.id}, w)
	s.putTask(w.id, w.entry(state.Task_DISCARDED))
	s.note("task discarded", w, rank)
}
