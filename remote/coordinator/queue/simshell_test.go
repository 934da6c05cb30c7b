package queue_test

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// leader is a coordinator that holds the lock, or did and does not know better.
type leader struct {
	s     *sim
	fence uint64
	queue *queue.Queue        // nil before the dataset is reported
	heard map[*process]uint64 // number of the last request that was answered
}

// elect lets a new coordinator take the lock. The one before may not know.
func (s *sim) elect() {
	s.fence++
	l := &leader{s: s, fence: s.fence, heard: map[*process]uint64{}}
	s.leaders = append(s.leaders, l)
	s.say("coordinator %d leads", l.fence)
	q, effects, err := queue.Restore(s.policy, "d", s.store, s.now)
	if err != nil {
		s.fail("restore: %v\n%s", err, lines(s.store))
		return
	}
	if !l.commit(effects.Changes, s.revived) {
		l.die()
	} else if l.queue = q; q != nil {
		for _, p := range s.trainer { // what the one before may not have come to
			if l.queue != nil && (p.gone || !p.stopped && !p.dead) {
				l.step(queue.Lost{Rank: p.rank, Incarnation: s.since[p.rank] - 1, Drained: true, Pass: l.queue.Pass(), Committed: s.committed(l.queue.Pass())})
			}
		}
	}
}

// die ends a coordinator.
func (l *leader) die() {
	l.queue = nil
	l.s.leaders = slices.DeleteFunc(l.s.leaders, func(o *leader) bool { return o == l })
}

// commit makes changes durable. It reports false when nobody may be answered: the coordinator has crashed, or was deposed and ends, or the store did
// not answer and nothing has changed.
func (l *leader) commit(changes []queue.Change, durable func([]queue.Change)) bool {
	answers, ends := l.s.commit(l.s.store, odds{crash: 40, fail: 25}, l.fence != l.s.fence, changes, func(part []queue.Change) {
		if durable != nil {
			durable(part)
		}
		if len(part) == len(changes) {
			l.s.check()
		}
	})
	if ends {
		l.die()
	}
	return answers
}

// step does what a server does with an event: a copy takes it, and takes the place of the queue when its changes are durable.
func (l *leader) step(e queue.Event) (err error, ok bool) {
	copied := l.queue.Clone()
	effects, err := l.one(copied, e)
	if err != nil {
		return err, true
	}
	expected := l.s.expect(e)
	if !l.commit(effects.Changes, expected) {
		return nil, false
	}
	l.queue = copied
	l.s.hear(effects)
	return nil, true
}

// one steps a copy and checks the form of the effects.
func (l *leader) one(q *queue.Queue, e queue.Event) (queue.Effects, error) {
	before := ""
	if l.s.careful {
		before = q.Fingerprint()
	}
	effects, err := q.Step(l.s.now, e)
	if errors.Is(err, fault.Stale) {
		l.s.note("stale")
	}
	switch e.(type) {
	case queue.Finish:
		if err == nil && len(effects.Changes) == 0 {
			l.s.note("finish repeated")
		}
	case queue.Get:
		if effects.Grant.Task != nil && len(effects.Changes) == 1 {
			l.s.note("request repeated")
		}
	}
	keys := map[string]bool{}
	for _, c := range effects.Changes {
		if keys[c.Key] || len(c.Value) > 1000 {
			l.s.fail("%T changes %s twice, or to %d bytes", e, c.Key, len(c.Value))
		}
		keys[c.Key] = true
	}
	switch e.(type) {
	case queue.AddFiles, queue.Lost:
	default:
		if len(effects.Changes) > queue.MaxStepChanges {
			l.s.fail("%T makes %d changes", e, len(effects.Changes))
		}
	}
	if l.s.careful && len(effects.Changes) == 0 && q.Fingerprint() != before {
		l.s.fail("%T changes what is not made durable", e)
	}
	return effects, err
}

func (s *sim) hear(e queue.Effects) {
	for _, n := range e.Notes {
		s.note("%s", n.What)
	}
	if e.Exhausted {
		s.note("exhausted")
	}
}
