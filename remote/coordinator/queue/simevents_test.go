package queue_test

import "github.com/edl-go/edl/remote/coordinator/queue"

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
	for _, e := range []queue.Event{queue.AddFiles{Files: l.s.files}, queue.EndOfFiles{}} {
		if _, last := e.(queue.EndOfFiles); last && !l.s.marked || l.queue == nil || !l.queue.Following() {
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
	if err, ok := l.step(queue.Lost{Rank: p.rank, Incarnation: p.incarnation, Drained: p.drained, Pass: pass,
		Committed: l.s.committed(pass)}); err != nil {
		l.s.fail("lost: %v", err)
	} else if ok {
		p.gone = true
	}
}
