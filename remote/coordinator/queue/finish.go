package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
)

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

func (e Finish) apply(s *step) error {
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
