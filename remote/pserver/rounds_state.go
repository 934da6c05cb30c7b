package pserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// after is the number of rounds applied when the one that is being applied has been.
func (r *Rounds) after() uint64 {
	if r.applying {
		return r.round + 1
	}
	return r.round
}

// barriers returns what the members have declared for the open round.
func (r *Rounds) barriers() []Declared {
	var list []Declared
	for _, m := range r.members {
		if m.declared != nil {
			list = append(list, *m.declared)
		}
	}
	return list
}

// State answers Freeze. Barriers of a generation before the one that has ended stay untold: it was ended before, and the decision on its open round
// is either to be seen at another server, which has applied it, or has never come into force.
func (r *Rounds) State() State {
	s := State{Generation: r.generation, Round: r.after(), Applied: r.made}
	if !r.applying && r.generation >= r.ended {
		s.Declared = r.barriers()
	}
	for _, m := range r.members {
		if m.complete {
			s.Completed = append(s.Completed, m.rank)
		}
	}
	return s
}

// Made returns what the last round that was applied was made of.
func (r *Rounds) Made() []Declared { return r.made }

// Missing returns the ranks that the open round waits for; none while no generation is under way.
func (r *Rounds) Missing() []int {
	var ranks []int
	for _, m := range r.members {
		if m.declared == nil && !m.complete && !r.applying && !r.idle() {
			ranks = append(ranks, m.rank)
		}
	}
	return ranks
}

// Begun reports whether a member has sent or declared something for the round that is open.
func (r *Rounds) Begun() bool {
	return !r.applying && !r.idle() && slices.ContainsFunc(r.members, func(m *member) bool { return m.declared != nil || len(m.delivered) > 0 })
}

// othersComplete reports whether every member but rank has completed.
func (r *Rounds) othersComplete(rank int) bool {
	return !r.applying && !slices.ContainsFunc(r.members, func(m *member) bool { return m.rank != rank && !m.complete })
}

// String shows the state on one line, for logs and scripts.
func (r *Rounds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d", r.generation)
	if r.idle() {
		fmt.Fprintf(&b, " frozen up to %d", r.ended)
	}
	fmt.Fprintf(&b, "; round %d", r.round)
	if r.applying {
		b.WriteString(" applying")
	}
	for _, m := range r.members {
		fmt.Fprintf(&b, "; trainer %d", m.rank)
		switch {
		case m.declared != nil:
			fmt.Fprintf(&b, " declared %d rows", m.declared.Rows)
		case m.complete:
			b.WriteString(" complete")
		default:
			fmt.Fprintf(&b, " sent %v", sorted(m.delivered))
		}
	}
	return b.String()
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
