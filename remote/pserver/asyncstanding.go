package pserver

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/remote/id"
)

// What happens to the machine of the standby of a server of an async job, beside Followed and TookOver. The server tells these things in the order in which
// they have happened to its parameters.
type (
	// Updated says what a step of a trainer contributes to an update of the server: it is here, and the server has told nobody yet that it is applied. Applied
	// follows for each variable.
	Updated struct {
		Sender             // its Generation is that in which the process of the trainer joined
		Variables []string // none: the learning-rate block, with which the step begins
	}
	// Entered says that a step is in the ledger.
	Entered struct {
		Sender
		Declaration Declaration
	}
	// CaughtUp says that the parameters are those of the server, and how far each trainer is by what they contain.
	CaughtUp struct {
		Steps  id.Round // in the ledger, and those before the job
		Pushed []Pushed // in rank order
	}
)

func (Updated) event()  {}
func (Entered) event()  {}
func (CaughtUp) event() {}

// Pushed is how far a trainer of an async job is by what the parameters of a server contain.
type Pushed struct {
	Rank      id.Rank
	Since     id.Generation // in which its process joined
	Started   bool          // something of Step is applied
	Step      id.Round
	Applied   []string // of the contributions of Step
	Committed id.Round // the first step that is not in the ledger
}

// standingOfUpdates is what a standby of the server of an async job has to know now of its members.
func standingOfUpdates(u *Updates) Standing {
	s := Standing{Generation: u.begun, Ended: u.ended, Fence: u.fence, History: u.history, Back: u.back, Clocks: u.pace.list()}
	for _, rank := range slices.Sorted(maps.Keys(u.members)) {
		m := u.members[rank]
		if m.gone {
			continue
		}
		s.Members = append(s.Members, Member{Rank: rank, Since: m.since, Leader: rank})
		if m.complete {
			s.Completed = append(s.Completed, rank)
		}
	}
	return s
}

// followUpdates takes an event of a standby.
func followUpdates(u *Updates, e Event) (Effects, error) {
	switch e := e.(type) {
	case Followed:
		return Effects{}, standUpdates(u, e.Standing)
	case CaughtUp:
		noteCaughtUp(u, e)
	case Updated:
		if err := noteUpdated(u, e); err != nil {
			return Effects{}, err
		}
	case Entered:
		if err := u.checkRank(e.Rank); err != nil {
			return Effects{}, err
		}
		if m := processOf(u, e.Sender); m.since == e.Generation {
			m.committed = e.Round + 1
		}
		u.steps += e.Declaration.steps()
		u.pace.pushed(e.Rank)
		e.Declaration.Rank = e.Rank
		return Effects{Commit: []Declaration{e.Declaration}}, nil
	case TookOver:
		return Effects{Finished: u.finished()}, nil
	}
	return Effects{}, nil
}

// standUpdates makes the members and their clocks those of the server. How far they are stays.
func standUpdates(u *Updates, s Standing) error {
	if err := u.checkMembers(Resumed{Generation: s.Generation, Members: s.Members}); err != nil {
		return err
	}
	u.begun, u.ended, u.history, u.back = s.Generation, s.Ended, s.History, s.Back
	u.noteFence(s.Fence)
	for _, m := range u.members {
		m.gone = true
	}
	for _, member := range s.Members {
		m := processOf(u, Sender{Rank: member.Rank, Generation: member.Since})
		m.gone, m.complete = false, slices.Contains(s.Completed, member.Rank)
	}
	u.pace.clocks = map[id.Rank]*clock{}
	for _, c := range s.Clocks {
		own := c.clock
		u.pace.clocks[c.Rank] = &own
	}
	return nil
}

// processOf returns how far the process of a rank is that joined in the generation of from, or a later one of the rank. One that is new is no member before
// Followed says so.
func processOf(u *Updates, from Sender) *progress {
	m := u.members[from.Rank]
	if m == nil || m.since < from.Generation {
		earlier := 0
		if m != nil {
			earlier = m.unapplied()
		}
		m = &progress{since: from.Generation, gone: true, earlier: earlier, received: map[string]bool{}}
		u.members[from.Rank] = m
	}
	return m
}

// noteUpdated notes what a step contributes.
func noteUpdated(u *Updates, e Updated) error {
	if err := u.checkRank(e.Rank); err != nil {
		return err
	}
	for _, name := range e.Variables {
		if err := u.checkVariable(name); err != nil {
			return err
		}
	}
	m := processOf(u, e.Sender)
	switch {
	case m.since != e.Generation: // of an earlier process
		m.earlier += len(e.Variables)
		return nil
	case m.started && e.Round < m.step: // of a step before one that has begun
	default:
		m.begin(e.Round)
		m.next = max(m.next, e.Round+1)
		for _, name := range e.Variables {
			m.received[name] = true
		}
	}
	m.pending += len(e.Variables)
	return nil
}

// noteCaughtUp replaces how far the trainers are.
func noteCaughtUp(u *Updates, e CaughtUp) {
	for _, m := range u.members {
		m.started, m.step, m.next, m.committed = false, 0, 0, 0
		clear(m.received)
	}
	for _, p := range e.Pushed {
		m := processOf(u, Sender{Rank: p.Rank, Generation: p.Since})
		if m.since != p.Since {
			continue
		}
		m.committed, m.next = p.Committed, p.Committed
		if p.Started {
			m.begin(p.Step)
			m.next = max(m.next, p.Step+1)
		}
		for _, name := range p.Applied {
			m.received[name] = true
		}
	}
	u.steps = e.Steps
}

// caughtUpOf is what CaughtUp says of trainers, for a machine that has taken the events of a standby. steps are those in the ledger.
func caughtUpOf(u *Updates, steps id.Round) CaughtUp {
	e := CaughtUp{Steps: steps}
	for _, rank := range slices.Sorted(maps.Keys(u.members)) {
		m := u.members[rank]
		e.Pushed = append(e.Pushed, Pushed{Rank: rank, Since: m.since, Started: m.started, Step: m.step,
			Applied: slices.Sorted(maps.Keys(m.received)), Committed: m.committed})
	}
	return e
}

// A Clock is the clock of a trainer: how many pushes it has made, as far as others wait for it.
type Clock struct {
	Rank id.Rank
	clock
}

// list returns the clocks in rank order.
func (p *pace) list() []Clock {
	var all []Clock
	for _, rank := range slices.Sorted(maps.Keys(p.clocks)) {
		all = append(all, Clock{rank, *p.clocks[rank]})
	}
	return all
}
