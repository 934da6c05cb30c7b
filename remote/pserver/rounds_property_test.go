package pserver_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// simTrainer is one trainer of a simulated job. In each round it sends every variable once, in any order, declares, and waits for the end of the
// round. It completes after its last round.
type simTrainer struct {
	round  id.Round
	rounds id.Round // before this one it takes part
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

// roundsSim tells Rounds the messages of trainers, in any order and some of them again.
type roundsSim struct {
	*rapid.T
	machine  *pserver.Rounds
	names    []string
	trainers []simTrainer
	past     []pserver.Event // every message that was taken, to be replayed
	busy     bool            // a round is being applied
	applied  id.Round        // the version that must be there
	finished bool
}

// Messages come in any order, and some twice. Every round is applied once, with exactly those who have declared rows for it, in rank order. The job
// ends when all have completed.
func TestRoundsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := id.Round(rapid.SampledFrom([]uint64{0, 1, 41}).Draw(t, "start"))
		s := &roundsSim{T: t, applied: start, names: []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "names")],
			trainers: make([]simTrainer, rapid.IntRange(1, 4).Draw(t, "trainers"))}
		s.machine = pserver.NewRounds(len(s.trainers), s.names, start)
		if state := s.machine.State(); state.Round != start || len(state.Applied) != 0 {
			t.Fatalf("at first the state is %+v", state)
		}
		begin := first(len(s.trainers))
		begin.Round = start
		must(t, s.machine, begin)
		for i := range s.trainers {
			s.trainers[i] = simTrainer{round: start, rounds: start + id.Round(rapid.Uint64Range(0, 3).Draw(t, "rounds")), rows: s.share()}
		}
		for !s.finished {
			s.act(rapid.IntRange(0, 3*len(s.trainers)).Draw(t, "actor"))
		}
		want := start
		for _, trainer := range s.trainers {
			want = max(want, trainer.rounds)
			if trainer.state != completed {
				t.Fatal("the job has ended before its trainers")
			}
		}
		if s.applied != want || s.busy {
			t.Fatalf("version %d at the end, want %d", s.applied, want)
		}
	})
}

// first begins generation 1, with trainers 0 to n-1.
func first(n int) pserver.Resumed {
	e := pserver.Resumed{Generation: 1}
	for rank := range n {
		e.Members = append(e.Members, pserver.Member{Rank: id.Rank(rank), Since: 1, Leader: id.Rank(rank)})
	}
	return e
}

func (s *roundsSim) share() int64 { return rapid.Int64Range(0, 3).Draw(s.T, "rows") }

// act lets one trainer go on, or the server finish a round, or it sends a message that must change nothing.
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
	t, from := &s.trainers[rank], s.from(rank)
	switch {
	case t.state == completed:
	case t.state == declared:
		if s.applied <= t.round {
			return // it waits for the round
		}
		t.round, t.state, t.sent, t.rows = t.round+1, sending, nil, s.share()
	case t.round == t.rounds:
		t.state = completed
		s.take(pserver.Completed{Sender: from})
	case t.rows == 0 || len(t.sent) == len(s.names):
		t.state = declared
		s.take(pserver.Declared{Sender: from, Declaration: pserver.Declaration{Rows: t.rows}, Variables: len(t.sent)})
	default:
		left := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return slices.Contains(t.sent, name) })
		e := pserver.Received{Sender: from, Variable: rapid.SampledFrom(left).Draw(s.T, "variable")}
		must(s, s.machine, pserver.Offered(e))
		t.sent = append(t.sent, e.Variable)
		s.take(e)
	}
}

// from is the sender of what a trainer says now.
func (s *roundsSim) from(rank int) pserver.Sender {
	return pserver.Sender{Rank: id.Rank(rank), Generation: 1, Round: s.trainers[rank].round}
}

// take steps the machine with a message that must count, and checks what follows from it.
func (s *roundsSim) take(e pserver.Event) {
	f := must(s, s.machine, e)
	s.past = append(s.past, e)
	s.carryOut(f)
}

func (s *roundsSim) carryOut(f pserver.Effects) {
	if s.finished && (f.Apply || f.Finished) {
		s.Fatal("something follows the end")
	}
	s.finished = f.Finished
	if !f.Apply {
		return
	}
	var want []string
	for rank, t := range s.trainers {
		if t.state == sending {
			s.Fatalf("round %d is applied without trainer %d", s.applied, rank)
		}
		if t.state == declared && t.round == s.applied && t.rows > 0 {
			want = append(want, fmt.Sprintf("%d:%d", rank, t.rows))
		}
	}
	if got := rowsOf(f.Contributors); s.busy || !slices.Equal(got, want) {
		s.Fatalf("round %d of %v, want %v; another one is being applied: %v", s.applied, got, want, s.busy)
	}
	s.busy = true
}

func (s *roundsSim) finishRound() {
	if !s.busy {
		return
	}
	s.busy, s.applied = false, s.applied+1
	f := must(s, s.machine, pserver.Applied{})
	if s.machine.Round() != s.applied {
		s.Fatalf("round %d, want %d", s.machine.Round(), s.applied)
	}
	if want := s.machine.State().Applied; !reflect.DeepEqual(f.Commit, want) {
		s.Fatalf("%v enter the ledger, want %v", f.Commit, want)
	}
	s.carryOut(f)
}

// replay sends a message that was taken before once more.
func (s *roundsSim) replay() {
	e := rapid.SampledFrom(s.past).Draw(s.T, "past")
	s.unchanged(e, func(f pserver.Effects, err error) bool {
		return f.Ignore || err != nil && fault.KindOf(err) == fault.Stale
	})
}

// foreign sends messages that no trainer of the job sends now.
func (s *roundsSim) foreign(rank int) {
	t, from := s.trainers[rank], s.from(rank)
	if t.state == completed {
		return
	}
	ahead, next, unknown := from, from, from
	ahead.Round, next.Round, unknown.Rank = s.applied+2, s.applied+1, id.Rank(len(s.trainers))
	one := pserver.Declaration{Rows: 1}
	s.unchanged(pserver.Received{Sender: ahead, Variable: "a"}, refused)
	s.unchanged(pserver.Declared{Sender: unknown, Declaration: one, Variables: len(s.names)}, refused)
	if t.state == sending && !s.busy {
		s.unchanged(pserver.Offered{Sender: from, Variable: "z"}, refused)
		s.unchanged(pserver.Declared{Sender: from, Declaration: one, Variables: len(t.sent) + 1}, refused)
	}
	if s.busy || t.state == declared && t.round == s.applied {
		s.unchanged(pserver.Offered{Sender: next, Variable: "a"}, func(f pserver.Effects, _ error) bool { return f.Hold })
	}
}

func refused(_ pserver.Effects, err error) bool { return err != nil }

// unchanged sends a message and checks that it has no effect.
func (s *roundsSim) unchanged(e pserver.Event, ok func(pserver.Effects, error) bool) {
	before := s.machine.String()
	f, err := s.machine.Step(0, e)
	if !ok(f, err) || !reflect.DeepEqual(f, pserver.Effects{Hold: f.Hold, Ignore: f.Ignore}) {
		s.Fatalf("%+v: %s", e, show(f, err))
	}
	if after := s.machine.String(); after != before {
		s.Fatalf("%+v changed\n%s\nto\n%s", e, before, after)
	}
}
