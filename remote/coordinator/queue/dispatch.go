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
		if p := s.pending.of(e.Rank, e.Since, t.granted, s.pass); p != nil {
			s.effects.Grant.Task = grant(&s.Queue, &p.task)
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
	s.assign(&pending{task: t, rank: e.Rank, since: e.Since, dispatched: s.now, deadline: s.now + s.policy.timeout(s.average).Milliseconds()})
	s.effects.Grant.Task = grant(&s.Queue, &t)
	s.putTrainer(e.Rank, &trainer{since: e.Since, request: e.Request, granted: dispatch{s.pass, t.id, t.epoch}, finished: to.finished})
}

func grant(q *Queue, t *task) *rpc.Task {
	left := q.left(t)
	m := &rpc.Task{Id: t.id, Epoch: t.epoch, Pass: q.pass, Dataset: q.name, Records: wire.Ranges(left)}
	if whole := q.layout.recordsOf(t.id); t.left == nil && left.Count() < whole.Len() {
		m.Within = wire.Ranges([]ranges.Range{whole})[0]
		left = ranges.Set{whole}
	}
	if q.following {
		m.Files = q.layout.filesOf(left)
	}
	return m
}

// timeout is the time that a task may take, with an average of task times, 0 for none.
func (p Policy) timeout(average time.Duration) time.Duration {
	if average == 0 {
		return p.MaxTimeout
	}
	return min(max(TimeoutFactor*average, p.MinTimeout), p.MaxTimeout)
}

// assign enters a pending task.
func (s *step) assign(p *pending) {
	s.pending.add(p)
	s.putTask(p.id, p.entry())
}

// pendingTasks are the tasks that trainers have. Like a tree, what it is made of is never changed in place: a copy of it stays as it is.
type pendingTasks struct {
	byTask     tree[*pending]
	byRank     tree[*pending] // by rank and task
	byDeadline tree[*pending] // by deadline and task
}

func (t *pendingTasks) add(p *pending) {
	t.byTask = t.byTask.put(key{p.id}, p)
	t.byRank = t.byRank.put(key{int64(p.rank), p.id}, p)
	t.byDeadline = t.byDeadline.put(key{p.deadline, p.id}, p)
}

func (t *pendingTasks) remove(p *pending) {
	t.byTask = t.byTask.delete(key{p.id})
	t.byRank = t.byRank.delete(key{int64(p.rank), p.id})
	t.byDeadline = t.byDeadline.delete(key{p.deadline, p.id})
}

// first returns the task with the first deadline.
func (t *pendingTasks) first() (*pending, bool) {
	_, p, ok := t.byDeadline.first()
	return p, ok
}

// holders returns the ranks that have tasks, in order.
func (t *pendingTasks) holders() (ranks []id.Rank) {
	for _, p := range t.byRank.from(key{}) {
		if n := len(ranks); n == 0 || ranks[n-1] != p.rank {
			ranks = append(ranks, p.rank)
		}
	}
	return ranks
}

// ofRank returns the tasks of the processes of a rank that joined in a generation or before it.
func (t *pendingTasks) ofRank(rank id.Rank, since id.Generation) (tasks []*pending) {
	for _, p := range t.byRank.from(key{int64(rank), -1}) {
		if p.rank != rank {
			break
		}
		if p.since <= since {
			tasks = append(tasks, p)
		}
	}
	return tasks
}

// of returns the pending task of a dispatch, nil when the dispatch is over or another trainer's.
func (t *pendingTasks) of(rank id.Rank, since id.Generation, d dispatch, pass int32) *pending {
	p, ok := t.byTask.get(key{d.task})
	if !ok || d.pass != pass || p.epoch != d.epoch || p.rank != rank || p.since != since {
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
	p := s.pending.of(e.Rank, e.Since, d, s.pass)
	if p == nil || t == nil {
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), d)
	}
	s.pending.remove(p)
	s.putTask(p.id, nil)
	if s.left(&p.task).Count() == s.layout.recordsOf(p.id).Len() {
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
	p := s.pending.of(e.Rank, e.Since, d, s.pass)
	if p == nil {
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), d)
	}
	s.putBack(p, e.Committed, true, e.Reason)
	return nil
}

func (e TaskTimedOut) apply(s *step) error {
	p, ok := s.pending.byTask.get(key{e.Task})
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
	mine := s.pending.ofRank(e.Rank, e.Since)
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
	s.pending.remove(p)
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
		if left.Count() < s.layout.recordsOf(t.id).Len() {
			t.left = left // also in later passes
		}
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
		for s.given < s.layout.tasks && (s.discarded.has(key{s.given}) || len(untrained(&s.Queue, s.given)) == 0) {
			s.given++
		}
		left := s.given < s.layout.tasks || s.returned.len > 0 || s.open()
		switch {
		case s.pending.byTask.len > 0 || left && !s.stopped:
			return
		case s.stopped || s.pass >= s.policy.lastPass() || s.Exhausted():
			s.end()
			return
		}
		s.beginPass()
	}
}
