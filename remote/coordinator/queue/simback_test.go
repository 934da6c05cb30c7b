package queue_test

import (
	"maps"

	"github.com/edl-go/edl/remote/coordinator/queue"
)

// simCut is a checkpoint of a history: between two batches of every trainer, so that the ledger has what the parameters have, but for what processes had
// applied that were lost before.
type simCut struct {
	pass            int32
	ledger          []map[int64]bool
	applied, excuse []map[int64]int
}

// cutNow makes a checkpoint, unless a trainer is between an update and its entry in the ledger.
func (s *sim) cutNow() {
	for _, p := range s.trainer {
		if len(p.unknown) > 0 && s.since[p.rank] <= p.incarnation {
			return
		}
	}
	c := &simCut{pass: s.policy.Start.Pass}
	for pass := range s.ledger {
		if len(s.ledger[pass]) > 0 {
			c.pass = int32(pass)
		}
		c.ledger = append(c.ledger, maps.Clone(s.ledger[pass]))
		c.applied, c.excuse = append(c.applied, maps.Clone(s.applied[pass])), append(c.excuse, maps.Clone(s.excuse[pass]))
	}
	s.cut = c
}

// goBack takes the job back to the checkpoint. The pservers have its state before that is durable. A coordinator that crashes meanwhile makes all roles begin
// again, from the checkpoint and with no other state.
func (l *leader) goBack() {
	s, c := l.s, l.s.cut
	if l.fence != s.fence {
		return
	}
	for pass := range c.ledger {
		s.ledger[pass], s.applied[pass], s.excuse[pass] = maps.Clone(c.ledger[pass]), maps.Clone(c.applied[pass]), maps.Clone(c.excuse[pass])
	}
	for _, p := range append(append([]*process(nil), s.trainer...), s.zombies...) {
		p.past, p.dead, p.gone = true, true, true
	}
	for rank := range s.since {
		s.next++
		s.since[rank] = s.next // nothing counts that was sent before
	}
	s.policy.Passes += int(s.policy.Start.Pass - c.pass)
	s.policy.Start, s.policy.Trained = queue.Position{Pass: c.pass}, s.committed(c.pass)
	clear(s.failures)
	clear(s.granted)
	clear(s.graces)
	s.pass, s.least = c.pass, s.fence+1
	copied := l.queue.Clone()
	effects, err := copied.Step(s.now, queue.WentBack{To: s.policy.Start, Trained: s.policy.Trained})
	if err != nil {
		s.fail("back: %v", err)
		return
	}
	if s.chance(3, "all begin again") {
		clear(s.store)
		for len(s.leaders) > 0 {
			s.leaders[0].die()
		}
		return
	}
	s.store.commit(effects.Changes) // in one transaction
	s.note("goes back")
	s.check()
	l.die() // and leads again
}
