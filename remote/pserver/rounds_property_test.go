package pserver_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/pserver"
)

// simTrainer is one trainer of a simulated job: it sends every variable once a round, in any order, declares, waits for the round, and
// completes after its last.
type simTrainer struct {
	round  uint64
	rounds uint64 // that it takes part in
	sent   []string
	rows   int64 // of its share of the round, 0 for none
	state  simState
}

type simState int

const (
	sending simState = iota
	declared
	completed
)

// roundsSim runs Rounds against trainers whose messages come in any order, again and again.
type roundsSim struct {
	*rapid.T
	machine  *pserver.Rounds
	names    []string
	trainers []simTrainer
	past     []pserver.Event // every message that was taken, to be replayed
	busy     bool            // a round is being applied
	applied  uint64
	finished bool
}

// Whatever the order, and whatever is sent twice, every round is applied once with exactly those who declared rows for it, in rank order, and the
// job ends when all have completed.
func TestRoundsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &roundsSim{T: t, names: []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "names")],
			trainers: make([]simTrainer, rapid.IntRange(1, 4).Draw(t, "trainers"))}
		s.machine = pserver.NewRounds(len(s.trainers), s.names)
		if d := s.machine.Step(first(len(s.trainers))); d.Verdict != pserver.Take {
			t.Fatal(d.Err)
		}
		for i := range s.trainers {
			s.trainers[i] = simTrainer{rounds: rapid.Uint64Range(0, 3).Draw(t, "rounds"), rows: s.share()}
		}
		for !s.finished {
			s.act(rapid.IntRange(0, 3*len(s.trainers)).Draw(t, "actor"))
		}
		want := uint64(0)
		for _, trainer := range s.trainers {
			want = max(want, trainer.rounds)
			if trainer.state != completed {
				t.Fatal("the job has ended before its trainers")
			}
		}
		if s.applied != want || s.busy {
			t.Fatalf("%d rounds applied, want %d", s.applied, want)
		}
	})
}

// first is the begin of generation 1, with trainers 0 to n-1.
func first(n int) pserver.Event {
	e := pserver.Event{Kind: pserver.Resume, Generation: 1}
	for rank := range n {
		e.Members = append(e.Members, pserver.Member{Rank: rank, Since: 1})
	}
	return e
}

func (s *roundsSim) share() int64 { return rapid.Int64Range(0, 3).Draw(s.T, "rows") }

// act lets one trainer go on, the server finish a round, or a message come that must change nothing.
func (s *roundsSim) act(actor int) {
	switch n := len(s.trainers); {
	case actor < 2*n:
		s.advance(actor % n)
	case actor == 2*n:
		s.finishRound()
	case actor < 2*n+n/2+1 && len(s.past) > 0:
		s.replay()
	default:
		s.foreign(actor % n)
	}
}

func (s *roundsSim) advance(rank int) {
	t := &s.trainers[rank]
	switch {
	case t.state == completed:
	case t.state == declared:
		if s.applied <= t.round {
			return // it waits for the round
		}
		t.round, t.state, t.sent, t.rows = t.round+1, sending, nil, s.share()
	case t.round == t.rounds:
		t.state = completed
		s.take(pserver.Event{Kind: pserver.Complete, Generation: 1, Rank: rank})
	case t.rows == 0 || len(t.sent) == len(s.names):
		t.state = declared
		s.take(pserver.Event{Kind: pserver.Barrier, Generation: 1, Rank: rank, Round: t.round, Share: pserver.Declared{Rows: t.rows},
			Variables: len(t.sent)})
	default:
		left := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return slices.Contains(t.sent, name) })
		e := pserver.Event{Generation: 1, Rank: rank, Round: t.round, Variable: rapid.SampledFrom(left).Draw(s.T, "variable")}
		if d := s.machine.Step(e); d.Verdict != pserver.Take {
			s.Fatalf("offer %+v: %+v", e, d)
		}
		e.Kind = pserver.Deliver
		t.sent = append(t.sent, e.Variable)
		s.take(e)
	}
}

// take steps the machine with a message that must count, and checks what follows from it.
func (s *roundsSim) take(e pserver.Event) {
	d := s.machine.Step(e)
	if d.Verdict != pserver.Take {
		s.Fatalf("%+v: %+v", e, d)
	}
	s.past = append(s.past, e)
	s.obey(d)
}

func (s *roundsSim) obey(d pserver.Decision) {
	if s.finished && (d.Apply || d.Finished) {
		s.Fatal("something follows the end")
	}
	s.finished = d.Finished
	if !d.Apply {
		return
	}
	var want []pserver.Contributor
	for rank, t := range s.trainers {
		if t.state == sending {
			s.Fatalf("round %d is applied without trainer %d", s.applied, rank)
		}
		if t.state == declared && t.round == s.applied && t.rows > 0 {
			want = append(want, pserver.Contributor{Rank: rank, Rows: t.rows})
		}
	}
	if s.busy || !slices.Equal(d.Shares, want) {
		s.Fatalf("round %d of %v, want %v; another one is being applied: %v", s.applied, d.Shares, want, s.busy)
	}
	s.busy = true
}

func (s *roundsSim) finishRound() {
	if !s.busy {
		return
	}
	s.busy, s.applied = false, s.applied+1
	d := s.machine.Step(pserver.Event{Kind: pserver.Applied})
	if s.machine.Round() != s.applied {
		s.Fatalf("round %d, want %d", s.machine.Round(), s.applied)
	}
	s.obey(d)
}

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
