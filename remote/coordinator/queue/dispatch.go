package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// dispatched is the mode of async jobs: a task goes to one trainer, first come, first served. It comes back when the trainer fails, is lost, or takes
// too long.
type dispatched struct{}

func (dispatched) want(s *step, e TaskWanted) error {
	t, _ := s.trainers.get(key{int64(e.Rank)})
	switch {
	case t == nil || t.since < e.Since:
		t = &trainer{since: e.Since}
	case t.since > e.Since || t.gone:
		return s.fault(fault.Stale, fmt.Sprintf("a request of trainer %d as of generation %d", e.Rank, e.Since),
			fmt.Sprintf("one later than generation %d", t.since))
	case e.Request < t.request:
		return s.fault(fault.Stale, fmt.Sprintf("request %d of trainer %d", e.Request, e.Rank), fmt.Sprintf("request %d or later", t.request))
	case e.Request == t.request && t.granted.epoch > 0:
		if p := s.assigned(e.Rank, e.Since, t.granted); p != nil {
			s.effects.Grant.Task = s.grant(&p.task)
			s.putTrainer(e.Rank, t) // a change, so that a coordinator that has lost its lock grants nothing
			return nil
		}
	}
	switch {
	case s.ended || s.stopped:
		s.effects.Grant = Grant{EndOfPass: true, EndOfData: true}
	case e.Pass < s.pass:
		s.effects.Grant = Grant{EndOfPass: true}
	case e.Pass > s.pass+1:
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a request for pass %d", e.Pass), fmt.Sprintf("pass %d", s.pass))
	case e.Pass == s.pass+1 || s.given == s.layout.tasks && s.returned.len == 0:
		s.effects.Grant = Grant{Wait: true}
	default:
		s.dispatch(e, t)
	}
	return nil
}

// dispatch gives a trainer the first task that was never given in this pass, or the first that came back.
func (s *step) dispatch(e TaskWanted, to *trainer) {
	t := task{id: s.given}
	if s.given < s.layout.tasks {
		s.given++
	} else {
		k, back, _ := s.returned.first()
		s.returned = s.returned.delete(k)
		t = *back
		s.retried += s.left(&t).Count()
	}
	t.epoch++
	s.assign(&pending{task: t, rank: e.Rank, since: e.Since, dispatched: s.now, deadline: s.now + s.timeout().Milliseconds()})
	s.effects.Grant.Task = s.grant(&t)
	s.putTrainer(e.Rank, &trainer{since: e.Since, request: e.Request, granted: dispatch{s.pass, t.id, t.epoch}, finished: to.finished})
}

func (q *Queue) grant(t *task) *rpc.Task {
	left := q.left(t)
	m := &rpc.Task{Id: t.id, Epoch: t.epoch, Pass: q.pass, Dataset: q.name, Records: wire.Ranges(left)}
	if q.following {
		m.Files = q.layout.filesOf(left)
	}
	return m
}

// timeout is the time that the next task may take.
func (q *Queue) timeout() time.Duration {
	if q.average == 0 {
		return q.policy.MaxTimeout
	}
	return min(max(TimeoutFactor*q.average, q.policy.MinTimeout), q.policy.MaxTimeout)
}

// assign enters a pending task.
func (s *step) assign(p *pending) {
	s.pending = s.pending.put(key{p.id}, p)
	s.byRank = s.byRank.put(key{int64(p.rank), p.id}, p.id)
	s.byDeadline = s.byDeadline.put(key{p.deadline, p.id}, p.id)
	s.putTask(p.id, p.entry())
}

// unassign takes a task out of the pending ones.
func (s *step) unassign(p *pending) {
	s.pending = s.pending.delete(key{p.id})
	s.byRank = s.byRank.delete(key{int64(p.rank), p.id})
	s.byDeadline = s.byDeadline.delete(key{p.deadline, p.id})
}

// assigned returns the pending task of a dispatch, nil when that is over or another trainer's.
func (q *Queue) assigned(rank id.Rank, since id.Generation, d dispatch) *pending {
	p, ok := q.pending.get(key{d.task})
	if !ok || d.pass != q.pass || p.epoch != d.epoch || p.rank != rank || p.since != since {
		return nil
	}
	return p
}

func (dispatched) finish(s *step, e TaskFinished) error {
	d := dispatch{e.Task.GetPass(), e.Task.GetId(), e.Task.GetEpoch()}
	t, _ := s.trainers.get(key{int64(e.Rank)})
	if t != nil && t.since == e.Since && slices.Contains(t.finished, d) {
		return nil
	}
	p := s.assigned(e.Rank, e.Since, d)
	if p == nil || t == nil {
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), d)
	}
	s.unassign(p)
	s.putTask(p.id, nil)
	if p.left == nil {
		s.updateAverage(time.Duration(s.now-p.dispatched) * time.Millisecond)
	}
	after := *t
	after.finished = append(slices.Clone(t.finished[max(0, len(t.finished)-rememberedTasks+1):]), d)
	s.putTrainer(e.Rank, &after)
	return nil
}

// updateAverage moves the average of task times.
func (s *step) updateAverage(took time.Duration) {
	took = max(took, time.Millisecond)
	if s.average == 0 {
		s.average = took
	} else {
		s.average += (took - s.average) / averageWeight
	}
}

func (dispatched) fail(s *step, e TaskFailed) error {
	d := dispatch{e.Task.GetPass(), e.Task.GetId(), e.Task.GetEpoch()}
	p := s.assigned(e.Rank, e.Since, d)
	if p == nil {
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), d)
	}
	s.putBack(p, e.Committed, true, e.Reason)
	return nil
}

func (e TaskTimedOut) apply(s *step) error {
	p, ok := s.pending.get(key{e.Task})
	if !ok || e.Pass != s.pass || e.Epoch != p.epoch {
		return s.stale("its deadline", dispatch{e.Pass, e.Task, e.Epoch})
	}
	if s.now >= p.deadline {
		s.putBack(p, e.Committed, true, fmt.Sprintf("trainer %d took longer than %v", p.rank,
			time.Duration(p.deadline-p.dispatched)*time.Millisecond))
	}
	return nil
}

func (e TrainerLost) apply(s *step) error {
	if err := s.known(e.Rank, nil); err != nil || s.policy.Sync {
		return err
	}
	var mine []*pending
	for k, number := range s.byRank.from(key{int64(e.Rank), -1}) {
		if k[0] != int64(e.Rank) {
			break
		}
		if p, _ := s.pending.get(key{number}); p.since <= e.Since {
			mine = append(mine, p)
		}
	}
	if len(mine) > 0 && e.Pass != s.pass {
		return s.fault(fault.Stale, fmt.Sprintf("the ledger of pass %d", e.Pass), fmt.Sprintf("that of pass %d, which has begun", s.pass))
	}
	for _, p := range mine {
		before := s.left(&p.task).Count()
		left := s.left(&p.task).Without(e.Committed).Count()
		s.putBack(p, e.Committed, !e.Drained && left == before, fmt.Sprintf("trainer %d is gone: %s", e.Rank, shortReason(e.Reason)))
	}
	if t, _ := s.trainers.get(key{int64(e.Rank)}); t == nil || t.since < e.Since || t.since == e.Since && !t.gone {
		s.putTrainer(e.Rank, &trainer{since: e.Since, gone: true})
	}
	return nil
}

// putBack takes a task from the trainer that has it. The records that are not committed go to the end of the tasks that came back, or are discarded when
// the task has failed too often.
func (s *step) putBack(p *pending, committed ranges.Set, failed bool, reason string) {
	s.unassign(p)
	t := p.task
	left := s.left(&t).Without(committed).Bounded(maxRuns)
	if len(left) == 0 {
		s.putTask(t.id, nil) // done after all
		return
	}
	if t.left != nil || left.Count() < s.left(&t).Count() {
		t.left = left
	}
	if t.reason = shortReason(reason); failed {
		t.failures++
	}
	if t.pass = s.pass; int64(t.failures) > int64(s.policy.MaxFailures) {
		s.discard(&t, int(p.rank))
		return
	}
	t.returned = s.returns
	s.returns++
	s.returned = s.returned.put(key{t.returned}, &t)
	s.putTask(t.id, t.entry(state.Task_RETURNED))
	s.note("task came back", &t, int(p.rank))
}

func (dispatched) settle(s *step) {
	for !s.ended {
		for s.given < s.layout.tasks && s.isDiscarded(s.given) {
			s.given++
		}
		left := s.given < s.layout.tasks || s.returned.len > 0 || s.open()
		switch {
		case s.pending.len > 0 || left && !s.stopped:
			return
		case s.stopped || s.pass >= s.policy.lastPass() || s.Exhausted():
			s.end()
			return
		}
		s.beginPass()
	}
}
