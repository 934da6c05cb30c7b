package pserver

import (
	"fmt"
	"maps"
	"slices"

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

// sender returns the member that a message comes from, or the decision on a message that does not come from one.
func (u *Updates) sender(e Event) (*stepper, Decision) {
	m := u.members[e.Rank]
	switch {
	case e.Generation > u.generation:
		return nil, Decision{Verdict: Hold} // it has overtaken the Resume
	case m == nil || m.gone:
		return nil, refuse(fault.Superseded, "a message of trainer %d, which joined in generation %d",
			fmt.Sprintf("a member of generation %d", u.generation), e.Rank, e.Generation)
	case e.Generation < m.since:
		return nil, refuse(fault.Stale, "a message of trainer %d, which joined in generation %d",
			fmt.Sprintf("one of the process that joined in generation %d", m.since), e.Rank, e.Generation)
	case e.Generation > m.since:
		return nil, refuse(fault.Foreign, "a message of trainer %d, which joined in generation %d", fmt.Sprintf("generation %d", m.since), e.Rank,
			e.Generation)
	case m.before > 0:
		return nil, Decision{Verdict: Hold} // what the rank sent before it was started again comes first
	}
	return m, Decision{}
}

// idle reports whether no generation has begun yet.
func (u *Updates) idle() bool { return u.generation == 0 }

// expects reports whether the process of a rank that joined in a generation may still send something.
func (u *Updates) expects(rank int, since uint64) bool {
	m := u.members[rank]
	return m != nil && !m.gone && !m.complete && m.since == since
}

// freeze ends nothing: members do not wait for each other.
func (u *Updates) freeze(e Event) Decision {
	if err := u.obey(e); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	if e.Generation < u.generation {
		return refuse(fault.Stale, "the end of generation %d", fmt.Sprintf("generation %d", u.generation), e.Generation)
	}
	u.ended = max(u.ended, e.Generation)
	return Decision{Verdict: Take}
}

// resume takes over the list of members. A rank with another process begins at step 0, after what it sent before has been applied.
func (u *Updates) resume(e Event) Decision {
	err := u.obey(e)
	if err == nil {
		err = u.checkResume(e)
	}
	switch {
	case err != nil:
		return Decision{Verdict: Refuse, Err: err}
	case e.Generation == u.generation && e.Generation > 0:
		return Decision{Verdict: Ignore}
	case e.Generation <= max(u.generation, u.ended):
		return refuse(fault.Stale, "the begin of generation %d", fmt.Sprintf("one after generation %d", max(u.generation, u.ended)), e.Generation)
	}
	for _, m := range u.members {
		m.gone = true
	}
	for _, member := range e.Members {
		m := u.members[member.Rank]
		if m == nil || m.since != member.Since {
			before := 0
			if m != nil {
				before = m.pending + m.before
			}
			m = &stepper{since: member.Since, before: before, delivered: map[string]bool{}}
			u.members[member.Rank] = m
		}
		m.gone = false
	}
	u.generation = e.Generation
	u.forget()
	return Decision{Verdict: Take, Finished: u.finished()}
}

// applied counts one contribution of a rank, the oldest first.
func (u *Updates) applied(e Event) Decision {
	if m := u.members[e.Rank]; m.before > 0 {
		m.before--
	} else {
		m.pending--
	}
	u.forget()
	return Decision{Verdict: Take, Finished: u.finished()}
}

// forget drops those who are gone and have left nothing to apply.
func (u *Updates) forget() {
	maps.DeleteFunc(u.members, func(_ int, m *stepper) bool { return m.gone && m.pending+m.before == 0 })
}

func (u *Updates) finished() bool {
	for _, m := range u.members {
		if !m.gone && !m.complete || m.pending+m.before > 0 {
			return false
		}
	}
	return u.generation > 0
}

// othersComplete reports whether every member but rank has completed and all of their contributions are applied.
func (u *Updates) othersComplete(rank int) bool {
	for r, m := range u.members {
		if r != rank && (!m.gone && !m.complete || m.pending+m.before > 0) {
			return false
		}
	}
	return true
}

// State answers Freeze.
func (u *Updates) State() State {
	s := State{Generation: u.generation}
	for rank, m := range u.members {
		if m.complete && !m.gone {
			s.Completed = append(s.Completed, rank)
		}
	}
	slices.Sort(s.Completed)
	return s
}

// Missing returns the members that have not completed.
func (u *Updates) Missing() []int {
	var ranks []int
	for rank, m := range u.members {
		if !m.complete && !m.gone {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}
