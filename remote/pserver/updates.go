package pserver

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// Updates is the machine of an async job, where each contribution is an update of its own. Members do not depend on each other: a new
// generation changes nothing for those that stay.
type Updates struct {
	term
	members map[int]*stepper // by rank, with those that are gone until all they sent is applied
	names   map[string]bool
}

// stepper is how far one trainer is, as seen by this server.
type stepper struct {
	since     uint64 // the generation in which it joined
	gone      bool   // it is no member any more
	started   bool   // a contribution has been delivered
	step      uint64 // of the latest contribution
	delivered map[string]bool
	pending   int    // delivered and not yet applied
	before    int    // pending of an earlier process of this rank
	committed uint64 // steps up to this one, less one, were declared
	complete  bool
}

// NewUpdates starts without a generation, in a job whose ranks are less than limit. names are those that a contribution may hold.
func NewUpdates(limit int, names []string) *Updates {
	u := &Updates{term: term{limit: limit}, names: map[string]bool{}, members: map[int]*stepper{}}
	for _, n := range names {
		u.names[n] = true
	}
	return u
}

// Step takes one event.
func (u *Updates) Step(e Event) Decision {
	switch e.Kind {
	case Applied:
		return u.applied(e)
	case Freeze:
		return u.freeze(e)
	case Resume:
		return u.resume(e)
	}
	u.hear(e.Fence)
	if err := u.known(e.Rank); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	if e.Kind == ReadAny {
		return Decision{Verdict: Take}
	}
	m, d := u.sender(e)
	if m == nil {
		return d
	}
	switch e.Kind {
	case Read:
		return holdUnless(m.pending == 0)
	case ReadFinal:
		return holdUnless(u.othersComplete(e.Rank) && m.pending == 0)
	case Complete:
		return u.complete(m)
	}
	if m.complete {
		return refuse(fault.Stale, "step %d of trainer %d, which has completed", "nothing more", e.Round, e.Rank)
	}
	if e.Kind == Barrier {
		return u.barrier(m, e)
	}
	return u.contribution(m, e)
}

func holdUnless(ok bool) Decision {
	if ok {
		return Decision{Verdict: Take}
	}
	return Decision{Verdict: Hold}
}

func (u *Updates) contribution(m *stepper, e Event) Decision {
	switch {
	case !u.names[e.Variable]:
		return unknownVariable(e.Variable)
	case m.started && e.Round < m.step:
		return refuse(fault.Stale, "step %d of trainer %d", fmt.Sprintf("step %d or later", m.step), e.Round, e.Rank)
	case m.started && e.Round == m.step && m.delivered[e.Variable]:
		return Decision{Verdict: Ignore}
	case e.Kind == Offer:
		return Decision{Verdict: Take}
	}
	tick := m.begin(e.Round)
	m.delivered[e.Variable] = true
	m.pending++
	return Decision{Verdict: Take, Tick: tick}
}

// begin notes that the trainer is at a step, and reports whether it was not before.
func (m *stepper) begin(step uint64) bool {
	if m.started && step == m.step {
		return false
	}
	clear(m.delivered)
	m.started, m.step = true, step
	return true
}

// barrier enters a step in the ledger. It is the last message of the step.
func (u *Updates) barrier(m *stepper, e Event) Decision {
	switch {
	case e.Round+1 == m.committed:
		return Decision{Verdict: Ignore}
	case e.Round < m.committed || m.started && e.Round < m.step:
		return refuse(fault.Stale, "the end of step %d of trainer %d", fmt.Sprintf("step %d or later", max(m.committed, m.step)), e.Round, e.Rank)
	}
	delivered := 0
	if m.started && e.Round == m.step {
		delivered = len(m.delivered)
	}
	if err := checkBarrier(e, delivered, len(u.names)); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	m.committed = e.Round + 1
	share := e.Share
	share.Rank = e.Rank
	return Decision{Verdict: Take, Commit: &share}
}

func (u *Updates) complete(m *stepper) Decision {
	if m.complete {
		return Decision{Verdict: Ignore}
	}
	m.complete = true
	return Decision{Verdict: Take, Finished: u.finished()}
}
