package pserver

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// Updates decides what happens to the messages of an async job at one server, where each contribution is an update of its own. Like
// Rounds it is pure.
type Updates struct {
	members []stepper
	names   map[string]bool
}

// stepper is how far one trainer is, as seen by this server.
type stepper struct {
	started   bool   // a contribution has been delivered
	step      uint64 // of the latest contribution
	delivered map[string]bool
	pending   int // delivered and not yet applied
	complete  bool
}

// NewUpdates starts with nobody having contributed.
func NewUpdates(members int, names []string) *Updates {
	u := &Updates{names: map[string]bool{}, members: make([]stepper, members)}
	for _, n := range names {
		u.names[n] = true
	}
	for i := range u.members {
		u.members[i].delivered = map[string]bool{}
	}
	return u
}

// An Admission is the answer to an event of an async job.
type Admission struct {
	Verdict  Verdict
	Err      error
	Tick     bool // the trainer begins a new step with this contribution: run the learning-rate block first
	Finished bool // every member has completed and everything is applied
}

// Step takes one event. Barrier does not occur in async mode; Applied says that the contribution of Rank to Variable has been applied.
func (u *Updates) Step(e Event) Admission {
	if e.Rank < 0 || e.Rank >= len(u.members) {
		return Admission{Verdict: Refuse, Err: &fault.Fault{Kind: fault.Foreign, Got: fmt.Sprintf("trainer %d", e.Rank), Want: fmt.Sprintf("trainers 0 to %d", len(u.members)-1)}}
	}
	m := &u.members[e.Rank]
	switch e.Kind {
	case Applied:
		m.pending--
		return Admission{Verdict: Take, Finished: u.finished()}
	case Complete:
		if m.complete {
			return Admission{Verdict: Ignore}
		}
		m.complete = true
		return Admission{Verdict: Take, Finished: u.finished()}
	case Offer, Deliver:
		return u.contribution(m, e)
	}
	return Admission{Verdict: Refuse, Err: fault.New(fault.InvalidArgument, "a barrier in async mode")}
}

func (u *Updates) contribution(m *stepper, e Event) Admission {
	switch {
	case !u.names[e.Variable]:
		return Admission{Verdict: Refuse, Err: &fault.Fault{Kind: fault.Foreign, Variable: e.Variable, Got: "a contribution that this server does not hold", Want: "one of its gradients or states"}}
	case m.complete:
		return Admission{Verdict: Refuse, Err: &fault.Fault{Kind: fault.Stale, Variable: e.Variable, Got: fmt.Sprintf("step %d of trainer %d, which has completed", e.Round, e.Rank), Want: "nothing more"}}
	case m.started && e.Round < m.step:
		return Admission{Verdict: Refuse, Err: &fault.Fault{Kind: fault.Stale, Variable: e.Variable, Got: fmt.Sprintf("step %d of trainer %d", e.Round, e.Rank), Want: fmt.Sprintf("step %d or later", m.step)}}
	case m.started && e.Round == m.step && m.delivered[e.Variable]:
		return Admission{Verdict: Ignore}
	case e.Kind == Offer:
		return Admission{Verdict: Take}
	}
	tick := !m.started || e.Round > m.step
	if tick {
		clear(m.delivered)
	}
	m.started, m.step = true, e.Round
	m.delivered[e.Variable] = true
	m.pending++
	return Admission{Verdict: Take, Tick: tick}
}

func (u *Updates) finished() bool {
	for i := range u.members {
		if !u.members[i].complete || u.members[i].pending > 0 {
			return false
		}
	}
	return true
}

// Pending reports how many contributions of a trainer are delivered and not yet applied.
func (u *Updates) Pending(rank int) int { return u.members[rank].pending }

// OthersComplete reports whether every member but rank has completed and all of their contributions are applied.
func (u *Updates) OthersComplete(rank int) bool {
	for i := range u.members {
		if m := &u.members[i]; i != rank && (!m.complete || m.pending > 0) {
			return false
		}
	}
	return true
}

// Missing returns the ranks that have not completed.
func (u *Updates) Missing() []int {
	var ranks []int
	for rank := range u.members {
		if !u.members[rank].complete {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
