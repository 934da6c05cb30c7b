package pserver

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

func (r *Rounds) barrier(m *member, e Event) Decision {
	if m.declared != nil {
		return Decision{Verdict: Ignore}
	}
	if err := checkBarrier(e, len(m.delivered), len(r.names)); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	share := e.Share
	share.Rank = e.Rank
	m.declared = &share
	return r.advance(Decision{Verdict: Take})
}

// checkBarrier checks that a barrier speaks of what has been delivered: all of the variables, or none for a contribution without rows.
func checkBarrier(e Event, delivered, names int) error {
	if rows := e.Share.Rows; rows < 0 || e.Variables != delivered || rows > 0 && delivered != names || rows == 0 && delivered != 0 {
		return fault.E(fault.InvalidArgument,
			fault.Gotf("a barrier of trainer %d over %d rows and %d variables with %d received", e.Rank, rows, e.Variables, delivered),
			fault.Wantf("all %d variables, or none for 0 rows", names))
	}
	return nil
}

func (r *Rounds) complete(m *member) Decision {
	if m.complete {
		return Decision{Verdict: Ignore}
	}
	m.complete = true
	if m.declared == nil {
		clear(m.delivered)
	}
	return r.advance(Decision{Verdict: Take})
}

// advance adds to d what follows from everyone's state: a round to apply, or the end.
func (r *Rounds) advance(d Decision) Decision {
	if r.applying || r.idle() {
		return d
	}
	waiting := slices.ContainsFunc(r.members, func(m *member) bool { return m.declared == nil && !m.complete })
	declared := slices.ContainsFunc(r.members, func(m *member) bool { return m.declared != nil })
	switch {
	case waiting:
	case declared:
		return r.apply(d, r.barriers())
	default:
		d.Finished = true
	}
	return d
}

// apply begins the application of a round that is made of shares.
func (r *Rounds) apply(d Decision, shares []Declared) Decision {
	r.applying, r.made, d.Apply = true, shares, true
	for _, s := range shares {
		if s.Rows > 0 {
			d.Shares = append(d.Shares, Contributor{Rank: s.Rank, Rows: s.Rows})
		}
	}
	return d
}

func (r *Rounds) applied() Decision {
	r.applying = false
	r.round++
	for _, m := range r.members {
		m.declared = nil
		clear(m.delivered)
	}
	return r.advance(Decision{Verdict: Take})
}
