package queue_test

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
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
				l.step(queue.TrainerLost{Rank: id.Rank(p.rank), Since: id.Generation(s.since[p.rank] - 1), Drained: true, Pass: l.queue.Pass(),
					Committed: s.committed(l.queue.Pass())})
			}
		}
	}
}

// die ends a coordinator.
func (l *leader) die() {
	l.queue = nil
	l.s.leaders = slices.DeleteFunc(l.s.leaders, func(o *leader) bool { return o == l })
}

// commit makes changes durable. It reports false when nobody may be answered: the coordinator has crashed, or has lost its lock and ends, or the store did
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
	case queue.TaskFinished:
		if err == nil && len(effects.Changes) == 0 {
			l.s.note("finish repeated")
		}
	case queue.TaskWanted:
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
	case queue.FilesAdded, queue.TrainerLost:
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
	if l.queue == nil || m.from.past || m.from.gone && s.random.IntN(2) == 0 {
		return
	}
	if m.fence > l.fence {
		s.note("a trainer knows a later coordinator")
		l.die()
		return
	}
	if m.failed != nil {
		err, ok := l.step(queue.TaskFailed{Rank: id.Rank(m.from.rank), Since: id.Generation(m.from.incarnation), Task: m.failed, Reason: "poison",
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
		if i := slices.IndexFunc(s.net, func(m message) bool { return m.to == nil && m.failed == nil && m.fence <= l.fence && !m.from.past }); i >= 0 {
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
			if _, err := apply(queue.TaskFinished{Rank: id.Rank(p.rank), Since: id.Generation(p.incarnation), Task: t}); err != nil && !errors.Is(err, fault.Stale) {
				l.s.fail("finish: %v", err)
			}
		}
		effects, err := apply(queue.TaskWanted{Rank: id.Rank(p.rank), Since: id.Generation(p.incarnation), Request: m.number, Pass: m.pass})
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

// create makes the dataset, in several commits.
func (l *leader) create() {
	q, effects, err := queue.New(l.s.policy, queue.Dataset{Name: "d", Files: l.s.files, Following: l.s.follows})
	if err != nil {
		l.s.fail("%v", err)
		return
	}
	if l.commit(effects.Changes, nil) {
		l.queue = q
	}
}

// follow tells the queue of all files that are there.
func (l *leader) follow() {
	for _, e := range []queue.Event{queue.FilesAdded{Files: l.s.files}, queue.FilesEnded{}} {
		if _, last := e.(queue.FilesEnded); last && !l.s.marked || l.queue == nil || !l.queue.Following() {
			return
		}
		copied := l.queue.Clone()
		effects, err := l.one(copied, e)
		if err != nil {
			l.s.fail("%v", err)
		}
		if !l.commit(effects.Changes, nil) {
			return
		}
		l.queue = copied
		l.s.hear(effects)
	}
}

// timers tells the queue of deadlines that have passed.
func (l *leader) timers() {
	if l.queue == nil {
		return
	}
	at, e, ok := l.queue.Next()
	if !ok || at > l.s.now {
		return
	}
	e.Committed = l.s.committed(e.Pass)
	if err, _ := l.step(e); err != nil {
		l.s.fail("timeout: %v", err)
	}
}

// lost deals with a process that is gone: the parameter servers are told first, and then the ledger is asked.
func (l *leader) lost(p *process) {
	if l.fence != l.s.fence || l.queue == nil {
		return
	}
	if l.s.since[p.rank] <= p.incarnation {
		l.s.since[p.rank] = p.incarnation + 1
		if len(p.unknown) > 0 {
			l.s.note("trainer lost between update and ledger")
			for _, r := range p.unknown {
				l.s.excuse[p.pass][r]++
			}
		}
	}
	pass := l.queue.Pass()
	if err, ok := l.step(queue.TrainerLost{Rank: id.Rank(p.rank), Since: id.Generation(p.incarnation), Drained: p.drained, Pass: pass,
		Committed: l.s.committed(pass)}); err != nil {
		l.s.fail("lost: %v", err)
	} else if ok {
		p.gone = true
	}
}
