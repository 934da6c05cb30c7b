package queue

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
)

func (e Fail) apply(s *step) error {
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
	s.back(p, spansOf(e.Committed), true, e.Reason)
	return nil
}

func (e Timeout) apply(s *step) error {
	p, ok := s.pending.get(key{e.Task})
	if !ok || e.Pass != s.pass || e.Epoch != p.epoch {
		return s.stale("its deadline", dispatch{e.Pass, e.Task, e.Epoch})
	}
	if s.now >= p.deadline {
		s.back(p, spansOf(e.Committed), true, fmt.Sprintf("trainer %d took longer than %v", p.rank,
			time.Duration(p.deadline-p.dispatched)*time.Millisecond))
	}
	return nil
}

func (e Lost) apply(s *step) error {
	if err := s.known(e.Rank, nil); err != nil || s.policy.Sync {
		return err
	}
	committed := spansOf(e.Committed)
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
		whole := s.left(&p.work).records()
		left := s.left(&p.work).without(committed).records()
		s.back(p, committed, !e.Drained && left == whole, fmt.Sprintf("trainer %d is gone: %s", e.Rank, reasonOf(e.Reason)))
	}
	if t, _ := s.ranks.get(key{int64(e.Rank)}); t == nil || t.incarnation < e.Incarnation || t.incarnation == e.Incarnation && !t.gone {
		s.putRank(e.Rank, &rank{incarnation: e.Incarnation, gone: true})
	}
	return nil
}

// back takes a task from who has it. What is not committed of it goes to the end of the todo queue, or is discarded when it has failed too often.
func (s *step) back(p *pending, committed spans, failed bool, reason string) {
	s.release(p)
	w := p.work
	left := s.left(&w).without(committed).bounded()
	if len(left) == 0 {
		s.putTask(w.id, nil) // done after all
		return
	}
	if w.left != nil || left.records() < s.left(&w).records() {
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
