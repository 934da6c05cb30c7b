package pserver_test

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/pserver"
)

// A round is what a server applied.
type round struct {
	generation uint64
	shares     []string
}

type simServer struct {
	index    int
	machine  *pserver.Rounds
	names    []string
	arrived  map[string]uint64 // generation in which a contribution was sent that lies here, by name and rank
	busy     bool              // applying a round
	begun    uint64            // rounds that were applied or are being applied
	finished bool
}

func slot(name string, rank int) string { return fmt.Sprint(name, " of ", rank) }

// take lets the machine decide on a message, and obeys.
func (s *simServer) take(c *cluster, e pserver.Event) pserver.Decision {
	d := s.machine.Step(e)
	if d.Err != nil && fault.KindOf(d.Err) == fault.Internal {
		c.Errorf("server %d, %+v: %v", s.index, e, d.Err)
	}
	if e.Kind == pserver.Deliver && d.Verdict == pserver.Take {
		if at := slot(e.Variable, e.Rank); s.arrived[at] != 0 {
			c.Errorf("server %d takes %s twice", s.index, at)
		} else {
			s.arrived[at] = e.Generation
		}
	}
	s.obey(c, d)
	return d
}

func (s *simServer) obey(c *cluster, d pserver.Decision) {
	if d.Drop {
		clear(s.arrived)
	}
	s.finished = s.finished || d.Finished
	if !d.Apply {
		return
	}
	if s.busy || s.begun != s.machine.Round() {
		c.Errorf("server %d begins round %d after %d", s.index, s.machine.Round(), s.begun)
	}
	s.busy, s.begun = true, s.begun+1
	s.check(c, d.Shares)
}

// check compares a round with what it must be made of.
func (s *simServer) check(c *cluster, shares []pserver.Contributor) {
	r := round{}
	for _, m := range s.machine.Made() {
		r.generation = uint64(m.Pass) // trainers say here in which generation they are
		r.shares = append(r.shares, fmt.Sprint(m.Pass, ":", m.Rank, ":", m.Rows, ":", m.Records))
	}
	var want []string
	members := c.log[r.generation]
	for position, rank := range members {
		d := simShare(s.machine.Round(), r.generation, rank, position, len(members))
		want = append(want, fmt.Sprint(d.Pass, ":", d.Rank, ":", d.Rows, ":", d.Records))
	}
	if fmt.Sprint(r.shares) != fmt.Sprint(want) {
		c.Errorf("server %d applies round %d made of %v, want %v", s.index, s.machine.Round(), r.shares, want)
	}
	for _, share := range shares {
		for _, name := range s.names {
			if got := s.arrived[slot(name, share.Rank)]; got != r.generation {
				c.Errorf("server %d applies round %d of generation %d with %s of trainer %d that was sent in generation %d", s.index, s.machine.Round(),
					r.generation, name, share.Rank, got)
			}
		}
	}
	if n := len(c.applied); n < int(s.begun) {
		c.applied = append(c.applied, r)
		for _, m := range s.machine.Made() {
			if err := c.ledger.Commit(0, m.Records); err != nil {
				c.Error(err)
			}
		}
	} else if first := c.applied[s.begun-1]; fmt.Sprint(first) != fmt.Sprint(r) {
		c.Errorf("server %d applies round %d made of %v, another of %v", s.index, s.machine.Round(), r, first)
	}
}

// finishRound ends the round that is being applied, when all partial sums are there.
func (s *simServer) finishRound(c *cluster) {
	if !s.busy {
		return
	}
	for _, other := range c.servers {
		if c.exchange && other.begun < s.begun {
			return
		}
	}
	s.busy = false
	clear(s.arrived)
	s.obey(c, s.machine.Step(pserver.Event{Kind: pserver.Applied}))
}
