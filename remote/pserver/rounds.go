package pserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

// Rounds decides what happens to the messages of a sync job at one server. It is pure: no clock, socket or tensor. The server calls
// Step for every message, one at a time, and obeys the Decision.
type Rounds struct {
	members  []member
	names    map[string]bool // variables that a contribution may hold
	round    uint64
	applying bool
}

type member struct {
	delivered map[string]bool
	barrier   bool
	rows      int64
	complete  bool
}

// NewRounds starts at round 0 with the given number of members and names of variables.
func NewRounds(members int, names []string) *Rounds {
	r := &Rounds{names: map[string]bool{}, members: make([]member, members)}
	for _, n := range names {
		r.names[n] = true
	}
	for i := range r.members {
		r.members[i].delivered = map[string]bool{}
	}
	return r
}

// An EventKind says what a message does.
type EventKind int

// Kinds of event.
const (
	Offer    EventKind = iota // the header of a contribution arrived: may its bytes be received?
	Deliver                   // the bytes of a contribution are complete
	Barrier                   // a member declares its contribution to the round complete
	Complete                  // a member contributes to no later round
	Applied                   // the server has applied the round that a Decision told it to apply
)

// An Event is one message, or the server's own report of having applied a round.
type Event struct {
	Kind      EventKind
	Rank      int
	Round     uint64
	Variable  string
	Rows      int64
	Variables int // of a Barrier: how many variables the member sent to this server
}

// A Verdict says what to do with the message itself.
type Verdict int

// Verdicts.
const (
	Take   Verdict = iota // it counts
	Ignore                // it was applied before: acknowledge, change nothing
	Hold                  // it belongs to the next round, and its member has declared this one: ask again afterwards
	Refuse                // it must not count; Err says why
)

// String names the verdict as its constant.
func (v Verdict) String() string { return [...]string{"Take", "Ignore", "Hold", "Refuse"}[v] }

// A Decision is the answer to one event.
type Decision struct {
	Verdict  Verdict
	Err      error
	Apply    bool          // all members have declared: apply the round now, then report Applied
	Shares   []Contributor // of Apply: who contributed, in rank order
	Finished bool          // every member has completed: no round will follow
}

// A Contributor is a member whose contribution to a round counts.
type Contributor struct {
	Rank int
	Rows int64
}

// Round is the number of rounds applied so far.
func (r *Rounds) Round() uint64 { return r.round }

// Step takes one event.
func (r *Rounds) Step(e Event) Decision {
	if e.Kind == Applied {
		return r.applied()
	}
	if e.Rank < 0 || e.Rank >= len(r.members) {
		return refuse(fault.Foreign, "trainer %d", fmt.Sprintf("trainers 0 to %d", len(r.members)-1), e.Rank)
	}
	m := &r.members[e.Rank]
	if e.Kind == Complete {
		return r.complete(m)
	}
	if m.complete {
		return refuse(fault.Stale, "a message of trainer %d, which has completed", "nothing more", e.Rank)
	}
	if d, current := r.current(m, e); !current {
		return d
	}
	switch e.Kind {
	case Barrier:
		return r.barrier(m, e)
	default:
		return r.contribution(m, e)
	}
}

// current sorts out messages of other rounds. A member that receives nothing from this server, because it holds no parameter, may begin the next round
// before others have declared this one.
func (r *Rounds) current(m *member, e Event) (Decision, bool) {
	switch {
	case e.Round == r.round && !r.applying:
		return Decision{}, true
	case e.Round == r.round, e.Round < r.round && e.Round+1 == r.round:
		return Decision{Verdict: Ignore}, false
	case e.Round == r.round+1 && (r.applying || m.barrier):
		return Decision{Verdict: Hold}, false
	case e.Round < r.round:
		return refuse(fault.Stale, "round %d of trainer %d", fmt.Sprintf("round %d", r.round), e.Round, e.Rank), false
	}
	return refuse(fault.Foreign, "round %d of trainer %d", fmt.Sprintf("round %d", r.round), e.Round, e.Rank), false
}

func (r *Rounds) contribution(m *member, e Event) Decision {
	switch {
	case !r.names[e.Variable]:
		return Decision{Verdict: Refuse, Err: &fault.Fault{Kind: fault.Foreign, Variable: e.Variable, Got: "a contribution that this server does not hold", Want: "one of its gradients or states"}}
	case m.delivered[e.Variable], m.barrier:
		return Decision{Verdict: Ignore}
	}
	if e.Kind == Deliver {
		m.delivered[e.Variable] = true
	}
	return Decision{Verdict: Take}
}

func (r *Rounds) barrier(m *member, e Event) Decision {
	if m.barrier {
		return Decision{Verdict: Ignore}
	}
	if e.Rows < 0 || e.Variables != len(m.delivered) || e.Rows > 0 && len(m.delivered) != len(r.names) || e.Rows == 0 && len(m.delivered) != 0 {
		return refuse(fault.InvalidArgument, "a barrier of trainer %d over %d rows and %d variables with %d received",
			fmt.Sprintf("all %d variables, or none for 0 rows", len(r.names)), e.Rank, e.Rows, e.Variables, len(m.delivered))
	}
	m.barrier, m.rows = true, e.Rows
	return r.advance(Decision{Verdict: Take})
}

func (r *Rounds) complete(m *member) Decision {
	if m.complete {
		return Decision{Verdict: Ignore}
	}
	m.complete = true
	if !m.barrier {
		clear(m.delivered)
	}
	return r.advance(Decision{Verdict: Take})
}

// advance adds to d what follows from everyone's state: a round to apply, or the end.
func (r *Rounds) advance(d Decision) Decision {
	if r.applying {
		return d
	}
	waiting, declared := false, false
	for i := range r.members {
		m := &r.members[i]
		waiting = waiting || !m.barrier && !m.complete
		declared = declared || m.barrier
	}
	switch {
	case waiting:
	case declared:
		r.applying, d.Apply = true, true
		for rank := range r.members {
			if m := &r.members[rank]; m.barrier && m.rows > 0 {
				d.Shares = append(d.Shares, Contributor{Rank: rank, Rows: m.rows})
			}
		}
	default:
		d.Finished = true
	}
	return d
}

func (r *Rounds) applied() Decision {
	r.applying = false
	r.round++
	for i := range r.members {
		m := &r.members[i]
		m.barrier, m.rows = false, 0
		clear(m.delivered)
	}
	return r.advance(Decision{Verdict: Take})
}

// Missing returns the ranks that the round waits for.
func (r *Rounds) Missing() []int {
	var ranks []int
	for rank := range r.members {
		if m := &r.members[rank]; !m.barrier && !m.complete && !r.applying {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Begun reports whether a member has sent or declared something for the round that is open.
func (r *Rounds) Begun() bool {
	return !r.applying && slices.ContainsFunc(r.members, func(m member) bool { return m.barrier || len(m.delivered) > 0 })
}

// OthersComplete reports whether every member but rank has completed.
func (r *Rounds) OthersComplete(rank int) bool {
	for i := range r.members {
		if i != rank && !r.members[i].complete {
			return false
		}
	}
	return !r.applying
}

// String shows the state on one line, for logs and scripts.
func (r *Rounds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "round %d", r.round)
	if r.applying {
		b.WriteString(" applying")
	}
	for rank := range r.members {
		m := &r.members[rank]
		names := make([]string, 0, len(m.delivered))
		for n := range m.delivered {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "; trainer %d", rank)
		switch {
		case m.complete && !m.barrier:
			b.WriteString(" complete")
		case m.barrier:
			fmt.Fprintf(&b, " declared %d rows", m.rows)
		default:
			fmt.Fprintf(&b, " sent %v", names)
		}
	}
	return b.String()
}

func refuse(kind fault.Kind, got, want string, args ...any) Decision {
	return Decision{Verdict: Refuse, Err: &fault.Fault{Kind: kind, Got: fmt.Sprintf(got, args...), Want: want}}
}
