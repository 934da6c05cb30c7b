package queue

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/proto/state"
)

// readTasks puts every task that has an entry into its place.
func (r *restore) readTasks() error {
	for _, e := range r.numbered[taskPrefix] {
		t := e.value.(*state.Task)
		if e.number >= r.cut.tasks {
			return corrupt(e.key, fmt.Sprintf("a task beyond %d", r.cut.tasks))
		}
		if t.Failures > math.MaxInt32 || t.Epoch > math.MaxInt32 || t.Pass < 0 || t.Pass > r.pass || len(t.Reason) > maxReason ||
			t.Returned < 0 || len(t.Runs) > 2*maxRuns {
			return corrupt(e.key, "a number out of range")
		}
		whole := r.cut.task(e.number)
		left, ok := spansOfRuns(t.Runs, whole.to)
		if !ok || len(left) > 0 && left[0].from < whole.from {
			return corrupt(e.key, "records that are not of the task")
		}
		w := work{id: e.number, pass: t.Pass, epoch: t.Epoch, failures: t.Failures, reason: t.Reason, returned: t.Returned}
		if len(left) > 0 {
			w.left = left
		}
		if err := r.place(e.key, w, t); err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) place(name string, w work, t *state.Task) error {
	async := t.Place == state.Task_PENDING || t.Place == state.Task_RETURNED
	switch {
	case async && (r.policy.Sync || w.epoch == 0):
		return corrupt(name, "a task that was never given")
	case async && w.id >= r.given: // its trainer has never heard of it, as the head did not follow
		r.putTask(w.id, nil)
		return nil
	}
	switch t.Place {
	case state.Task_PENDING:
		if t.Rank >= maxRank || t.DispatchedMs < 0 {
			return corrupt(name, fmt.Sprintf("trainer %d since %d", t.Rank, t.DispatchedMs))
		}
		r.revive(&pending{work: w, rank: int(t.Rank), incarnation: t.Incarnation, dispatched: t.DispatchedMs, deadline: t.DeadlineMs, grace: t.Grace})
	case state.Task_RETURNED:
		if _, twice := r.returned.get(key{w.returned}); twice || w.returned == math.MaxInt64 {
			return corrupt(name, fmt.Sprintf("return %d", w.returned))
		}
		r.returns = max(r.returns, w.returned+1)
		r.returned = r.returned.put(key{w.returned}, &w)
	case state.Task_DISCARDED:
		r.discarded = r.discarded.put(key{w.id}, &w)
	case state.Task_FAILED:
		if !r.policy.Sync {
			return corrupt(name, "a failure of sync mode")
		}
		if w.pass != r.pass {
			r.putTask(w.id, nil) // forgotten
			return nil
		}
		r.failed = r.failed.put(key{w.id}, &w)
	default:
		return corrupt(name, fmt.Sprintf("place %d", t.Place))
	}
	return nil
}

// revive enters a pending task with what is left of its time.
func (r *restore) revive(p *pending) {
	p.dispatched = min(p.dispatched, r.now)
	before, now := *p, r.now
	switch latest := now + r.policy.MaxTimeout.Milliseconds(); {
	case p.deadline <= now && !p.grace:
		p.deadline, p.grace = now+r.policy.MinTimeout.Milliseconds(), true
	case p.deadline > latest:
		p.deadline = latest
	}
	changes := r.effects.Changes
	r.hold(p)
	if p.deadline == before.deadline {
		r.effects.Changes = changes
	}
}

// readRanks remembers the trainers.
func (r *restore) readRanks() error {
	for _, e := range r.numbered[rankPrefix] {
		t := e.value.(*state.Rank)
		if e.number >= maxRank || len(t.Finished) > rememberedTasks {
			return corrupt(e.key, "a trainer out of range")
		}
		n := &rank{incarnation: t.Incarnation, gone: t.Gone, request: t.Request}
		if d := t.Granted; d != nil {
			n.granted = dispatch{d.Pass, d.Task, d.Epoch}
		}
		for _, d := range t.Finished {
			n.finished = append(n.finished, dispatch{d.GetPass(), d.GetTask(), d.GetEpoch()})
		}
		r.ranks = r.ranks.put(key{e.number}, n)
	}
	return nil
}

// readSegments lists the last two segments of a sync queue, the last of which is of the current pass. Others were to be forgotten, or no head
// followed.
func (r *restore) readSegments() error {
	entries := r.numbered[segmentPrefix]
	for i, e := range entries {
		if e.number >= r.opened || i+2 < len(entries) && entries[i+2].number < r.opened {
			r.put(e.key, nil)
			continue
		}
		g := e.value.(*state.Segment)
		skip, ok := spansOfRuns(g.Skip, r.cut.records)
		n := len(r.segments)
		if !ok || len(skip) > maxRuns || g.Pass < 0 || g.Pass > r.pass ||
			n > 0 && (g.FirstRound < r.segments[n-1].firstRound || g.Pass < r.segments[n-1].pass) {
			return corrupt(e.key, fmt.Sprintf("a segment of pass %d from round %d on", g.Pass, g.FirstRound))
		}
		r.segments = append(r.segments, segment{number: e.number, pass: g.Pass, firstRound: g.FirstRound, skip: skip})
	}
	if n := len(r.segments); r.policy.Sync && (n == 0 || r.segments[n-1].pass != r.pass) || !r.policy.Sync && n > 0 {
		return corrupt(headKey, fmt.Sprintf("pass %d among %d segments", r.pass, n))
	}
	return nil
}
