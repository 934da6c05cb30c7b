package pserver

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// Rounds is the machine of a sync job. Contributions count in the generation in which they were sent; a generation ends with Freeze, and what becomes
// of its open round is for the coordinator to say in the Resume of the next one.
type Rounds struct {
	term
	members  []*member       // of the generation, in rank order
	names    map[string]bool // variables that a contribution may hold
	first    uint64          // round of the generation
	round    uint64          // rounds applied
	applying bool
	made     []Declared // what the round that is being applied is made of, or else the last one that was
}

type member struct {
	rank      int
	delivered map[string]bool
	declared  *Declared // nil before its barrier
	complete  bool
}

// NewRounds starts at round 0 without a generation, in a job whose ranks are less than limit. names are those that a contribution may hold.
func NewRounds(limit int, names []string) *Rounds {
	r := &Rounds{term: term{limit: limit}, names: map[string]bool{}}
	for _, n := range names {
		r.names[n] = true
	}
	return r
}

// Round is the number of rounds applied so far.
func (r *Rounds) Round() uint64 { return r.round }

// Step takes one event.
func (r *Rounds) Step(e Event) Decision {
	switch e.Kind {
	case Applied:
		return r.applied()
	case Freeze:
		return r.freeze(e)
	case Resume:
		return r.resume(e)
	}
	r.hear(e.Fence)
	if err := r.known(e.Rank); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	if e.Kind == ReadAny {
		return Decision{Verdict: Take}
	}
	m, d := r.sender(e)
	switch {
	case m == nil:
		return d
	case e.Kind == Read:
		return r.read(e)
	case e.Kind == ReadFinal:
		return r.readFinal(e)
	case e.Kind == Complete:
		return r.complete(m)
	case m.complete:
		return refuse(fault.Stale, "a message of trainer %d, which has completed", "nothing more", e.Rank)
	}
	if d, current := r.current(m, e); !current {
		return d
	}
	if e.Kind == Barrier {
		return r.barrier(m, e)
	}
	return r.contribution(m, e)
}

// current sorts out messages of other rounds. A member that receives nothing from this server, because it holds no parameter, may begin the next
// round before others have declared this one.
func (r *Rounds) current(m *member, e Event) (Decision, bool) {
	switch {
	case e.Round < r.first:
	case e.Round == r.round && !r.applying:
		return Decision{}, true
	case e.Round == r.round, e.Round < r.round && e.Round+1 == r.round:
		return Decision{Verdict: Ignore}, false
	case e.Round == r.round+1 && (r.applying || m.declared != nil):
		return Decision{Verdict: Hold}, false
	case e.Round > r.round:
		return refuse(fault.Foreign, "round %d of trainer %d", fmt.Sprintf("round %d", r.round), e.Round, e.Rank), false
	}
	return refuse(fault.Stale, "round %d of trainer %d", fmt.Sprintf("round %d", max(r.first, r.round)), e.Round, e.Rank), false
}

func (r *Rounds) contribution(m *member, e Event) Decision {
	switch {
	case !r.names[e.Variable]:
		return unknownVariable(e.Variable)
	case m.delivered[e.Variable], m.declared != nil:
		return Decision{Verdict: Ignore}
	}
	if e.Kind == Deliver {
		m.delivered[e.Variable] = true
	}
	return Decision{Verdict: Take}
}
