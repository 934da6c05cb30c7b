package pserver_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// A sharer is a simulated trainer in a round in which totals are shared at some places.
type sharer struct {
	rank  id.Rank
	rows  int64
	known [][]pserver.RankTotals // answers
	done  bool                   // the server knows its declaration
}

// Trainers share totals at some places of a round, while standbys take over from server 0 again and again, each without what was shared before. Each trainer sends
// what has no answer yet to the server that is there. All get the same totals at each place, each part once, and the round is applied.
func TestTotalsOutliveServers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, places := rapid.IntRange(1, 4).Draw(rt, "trainers"), rapid.IntRange(1, 3).Draw(rt, "places")
		var all []*sharer
		batch := int64(0)
		for rank := range n {
			s := &sharer{rank: id.Rank(rank), rows: rapid.Int64Range(0, 2).Draw(rt, "rows")}
			batch += s.rows
			all = append(all, s)
		}
		if batch == 0 {
			all[0].rows, batch = 1, 1
		}
		var server *pserver.Rounds
		start := func() {
			server = pserver.NewRounds(n, nil, 0)
			must(rt, server, first(n))
			for _, s := range all {
				s.done = false // it hears that the connection has ended, and declares again
			}
		}
		start()
		lost := rapid.IntRange(0, 5).Draw(rt, "lost servers")
		for step := 0; slices.ContainsFunc(all, func(s *sharer) bool { return !s.done }); step++ {
			if lost > 0 && rapid.IntRange(0, 7).Draw(rt, "loses") == 0 {
				lost--
				start()
				continue
			}
			s := all[rapid.IntRange(0, n-1).Draw(rt, "trainer")]
			if lost == 0 { // the rest is fair
				s = all[step%n]
			}
			if step > 2000 {
				rt.Fatalf("no end: %v", server)
			}
			s.act(rt, server, batch, places)
		}
		for _, s := range all {
			for place, parts := range s.known {
				rows := int64(0)
				for i, p := range parts {
					rows += p.Rows
					if p.Rows != all[p.Rank].rows || p.Values[0] != float64(p.Rank) || i > 0 && parts[i-1].Rank >= p.Rank {
						rt.Fatalf("trainer %d is told %v at place %d", s.rank, parts, place)
					}
				}
				if rows != batch {
					rt.Fatalf("trainer %d is told of %d rows at place %d, want %d", s.rank, rows, place, batch)
				}
			}
		}
	})
}

// act sends what the trainer sends next.
func (s *sharer) act(rt *rapid.T, server *pserver.Rounds, batch int64, places int) {
	from := pserver.Sender{Rank: s.rank, Generation: 1}
	if s.rows == 0 || len(s.known) == places {
		f, err := server.Step(0, pserver.Declared{Sender: from, Declaration: pserver.Declaration{Rows: s.rows}, Totals: s.known})
		if err != nil || f.Hold {
			rt.Fatal(show(f, err))
		}
		s.done = true
		return
	}
	f, err := server.Step(0, pserver.Shared{Sender: from, Place: len(s.known), Batch: batch, Own: ownTotals(s.rank, s.rows), Known: s.known})
	switch {
	case err != nil:
		rt.Fatal(err)
	case !f.Hold:
		s.known = append(slices.Clone(s.known), pserver.TotalsAt(server, len(s.known)))
	case slices.Contains(server.Missing(), s.rank):
		rt.Fatalf("trainer %d, which waits, is missing: %v", s.rank, server)
	}
}

// A batch that two trainers see differently is refused, so that nobody waits for rows that do not exist.
func TestTotalsOfOneBatch(t *testing.T) {
	server := pserver.NewRounds(2, nil, 0)
	must(t, server, first(2))
	for rank, batch := range []int64{5, 6} {
		_, err := server.Step(0, pserver.Shared{Sender: pserver.Sender{Rank: id.Rank(rank), Generation: 1}, Batch: batch, Own: ownTotals(id.Rank(rank), 2)})
		if rank == 1 && !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v, want a refusal", err)
		}
	}
}
