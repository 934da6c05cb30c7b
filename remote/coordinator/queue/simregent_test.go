package queue_test

import (
	"slices"

	"github.com/edl-go/edl/remote/coordinator/queue"
)

// regent is a coordinator of a sync job.
type regent struct {
	s     *rounds
	fence uint64
	queue *queue.Queue
}

func (s *rounds) elect() {
	s.fence++
	l := &regent{s: s, fence: s.fence}
	q, effects, err := queue.Restore(s.policy, "d", s.store, s.now)
	if err == nil && q == nil {
		q, effects, err = queue.New(s.policy, queue.Dataset{Name: "d", Files: s.files, Following: s.follows})
	}
	if err != nil {
		s.fail("%v\n%s", err, lines(s.store))
		return
	}
	s.leaders = append(s.leaders, l)
	if !l.commit(effects.Changes, func() {}) {
		l.die()
		return
	}
	l.queue = q
	s.freeze() // a coordinator begins a generation of its own
}

func (l *regent) die() {
	l.s.leaders = slices.DeleteFunc(l.s.leaders, func(o *regent) bool { return o == l })
}

func (l *regent) commit(changes []queue.Change, durable func()) bool {
	answers, ends := l.s.commit(l.s.store, odds{crash: 30, fail: 20}, l.fence != l.s.fence, changes, func([]queue.Change) { durable() })
	if ends {
		l.die()
	}
	return answers
}

func (l *regent) step(e queue.Event) (queue.Effects, error, bool) {
	copied := l.queue.Clone()
	effects, err := copied.Step(l.s.now, e)
	if err != nil {
		return effects, err, true
	}
	if !l.commit(effects.Changes, func() { l.s.count(e, l.queue, copied) }) {
		return effects, nil, false
	}
	l.queue = copied
	for _, n := range effects.Notes {
		l.s.note("%s", n.What)
	}
	l.check()
	return effects, nil, true
}

// change begins a generation with any number of members.
func (l *regent) change() {
	s := l.s
	s.freeze()
	if l.queue.Regrouping() {
		pass := l.queue.Segment(s.round).GetPass()
		if _, err, ok := l.step(queue.Regroup{Round: s.round, Pass: pass, Committed: s.committed(pass)}); err != nil || !ok {
			if err != nil {
				s.fail("regroup: %v", err)
			}
			return
		}
		s.note("regrouped")
	}
	segment := l.queue.Segment(s.round)
	if segment == nil {
		s.fail("round %d lies nowhere", s.round)
		return
	}
	s.generation++
	s.frozen, s.members, s.zombies = false, nil, append(s.zombies, s.members...)
	for rank := range 1 + s.random.IntN(3) {
		s.members = append(s.members, &reader{s: s, rank: rank, generation: s.generation, fence: l.fence, pass: segment.Pass, round: s.round,
			over: int(s.round-segment.FirstRound) * s.batch})
	}
	s.say("generation %d begins with round %d, %s", s.generation, s.round, showSegment(segment))
}
