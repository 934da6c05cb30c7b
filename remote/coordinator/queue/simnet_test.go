package queue_test

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// deliver brings a message to a coordinator, or several at once, or an answer to a trainer.
func (s *sim) deliver() {
	m, ok := s.receive()
	if !ok {
		return
	}
	if m.to != nil {
		m.to.hear(m)
		return
	}
	l := s.leaders[s.random.IntN(len(s.leaders))]
	if l.queue == nil || m.from.gone && s.random.IntN(2) == 0 {
		return
	}
	if m.fence > l.fence {
		s.note("deposed, says a trainer")
		l.die()
		return
	}
	if m.failed != nil {
		err, ok := l.step(queue.Fail{Rank: m.from.rank, Incarnation: m.from.incarnation, Task: m.failed, Reason: "poison",
			Committed: s.committed(m.failed.Pass)})
		if ok && !errors.Is(err, fault.Stale) && err != nil {
			s.fail("fail: %v", err)
		}
		if ok {
			s.net = append(s.net, message{to: m.from, number: m.number, fence: l.fence})
		}
		return
	}
	requests := []message{m}
	for len(requests) < 3 && s.random.IntN(2) == 0 {
		if i := slices.IndexFunc(s.net, func(m message) bool { return m.to == nil && m.failed == nil && m.fence <= l.fence }); i >= 0 {
			requests = append(requests, s.net[i])
			s.net = slices.Delete(s.net, i, i+1)
			s.note("several requests in a commit")
			continue
		}
		break
	}
	l.serve(requests)
}

// receive takes any message from the net, where they are lost and doubled.
func (s *sim) receive() (message, bool) {
	i := s.random.IntN(len(s.net))
	m := s.net[i]
	switch {
	case s.chance(10, "message lost"):
		s.net = slices.Delete(s.net, i, i+1)
		return m, false
	case s.chance(10, "message doubled"):
		return m, true
	}
	s.net = slices.Delete(s.net, i, i+1)
	return m, true
}

// serve answers requests for tasks that have one commit.
func (l *leader) serve(requests []message) {
	copied := l.queue.Clone()
	var changes []queue.Change
	var answers []message
	var all []queue.Effects
	apply := func(e queue.Event) (queue.Effects, error) {
		effects, err := l.one(copied, e)
		changes = append(changes, effects.Changes...)
		all = append(all, effects)
		return effects, err
	}
	for _, m := range requests {
		p := m.from
		if l.heard[p] > m.number {
			continue // the trainer has its answer
		}
		for _, t := range m.finished {
			if _, err := apply(queue.Finish{Rank: p.rank, Incarnation: p.incarnation, Task: t}); err != nil && !errors.Is(err, fault.Stale) {
				l.s.fail("finish: %v", err)
			}
		}
		effects, err := apply(queue.Get{Rank: p.rank, Incarnation: p.incarnation, Request: m.number, Pass: m.pass})
		answers = append(answers, message{to: p, number: m.number, fence: l.fence, grant: effects.Grant, err: err})
	}
	if !l.commit(changes, nil) {
		return
	}
	l.queue = copied
	for _, e := range all {
		l.s.hear(e)
	}
	for _, m := range answers {
		if later := slices.ContainsFunc(answers, func(o message) bool { return o.to == m.to && o.number > m.number }); m.grant.Task != nil && !later {
			l.s.mayGrant(l, m)
		}
		l.heard[m.to] = m.number
		l.s.net = append(l.s.net, m)
	}
}

// message is a request of a trainer, or the answer to one.
type message struct {
	from, to *process
	fence    uint64
	number   uint64
	finished []*rpc.Task
	pass     int32
	failed   *rpc.Task // TaskFailed
	grant    queue.Grant
	err      error
}
