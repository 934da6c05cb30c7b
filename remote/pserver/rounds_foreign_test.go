package pserver_test

import (
	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/pserver"
)

// replay sends a message that was taken before once more.
func (s *roundsSim) replay() {
	e := rapid.SampledFrom(s.past).Draw(s.T, "past")
	s.unchanged(e, func(d pserver.Decision) bool {
		return d.Verdict == pserver.Ignore || d.Verdict == pserver.Refuse && fault.KindOf(d.Err) == fault.Stale
	})
}

// foreign sends messages that no trainer of the job sends now.
func (s *roundsSim) foreign(rank int) {
	t := s.trainers[rank]
	if t.state == completed {
		return
	}
	s.unchanged(pserver.Event{Kind: pserver.Deliver, Generation: 1, Rank: rank, Round: s.applied + 2, Variable: "a"}, refused)
	s.unchanged(pserver.Event{Kind: pserver.Barrier, Generation: 1, Rank: len(s.trainers), Round: t.round, Share: pserver.Declared{Rows: 1},
		Variables: len(s.names)}, refused)
	if t.state == sending && !s.busy {
		s.unchanged(pserver.Event{Generation: 1, Rank: rank, Round: t.round, Variable: "z"}, refused)
		s.unchanged(pserver.Event{Kind: pserver.Barrier, Generation: 1, Rank: rank, Round: t.round, Share: pserver.Declared{Rows: 1},
			Variables: len(t.sent) + 1}, refused)
	}
	if s.busy || t.state == declared && t.round == s.applied {
		s.unchanged(pserver.Event{Kind: pserver.Offer, Generation: 1, Rank: rank, Round: s.applied + 1, Variable: "a"},
			func(d pserver.Decision) bool { return d.Verdict == pserver.Hold })
	}
}

func refused(d pserver.Decision) bool { return d.Verdict == pserver.Refuse && d.Err != nil }

// unchanged sends a message and checks that it has no effect.
func (s *roundsSim) unchanged(e pserver.Event, ok func(pserver.Decision) bool) {
	before := s.machine.String()
	if d := s.machine.Step(e); !ok(d) || d.Apply || d.Finished {
		s.Fatalf("%+v: %+v", e, d)
	}
	if after := s.machine.String(); after != before {
		s.Fatalf("%+v changed\n%s\nto\n%s", e, before, after)
	}
}
