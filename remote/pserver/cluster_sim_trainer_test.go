package pserver_test

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/pserver"
)

// A process is one life of a trainer.
type process struct {
	rank, number      int
	generation, since uint64 // that it is a member of, and the first that it was
	position, members int
	round             uint64
	phase             phase
	waiting           int // calls without an answer
	calls             int // counts what was given up: answers to older calls mean nothing
	dead, left        bool
}

// phase is what a process waits for.
type phase int

const (
	joins   phase = iota // to be told of a generation
	fetches              // for parameters
	sends                // for acknowledgements of its gradients
	declares
	completes
)

// start starts the next process of a rank.
func (c *cluster) start(rank int) {
	t := &process{rank: rank, number: c.next}
	c.next++
	if rank < len(c.trainers) {
		c.trainers[rank] = t
	} else {
		c.trainers = append(c.trainers, t)
	}
	c.joined[rank] = t
}

// simShare is what a member declares: its rows of the batch, as records. Where a trainer names the pass it names its generation.
func simShare(round, generation uint64, rank, position, members int) pserver.Declared {
	from, to := int64(simRows*position/members), int64(simRows*(position+1)/members)
	d := pserver.Declared{Rank: rank, Rows: to - from, Pass: int32(generation)}
	if to > from {
		first := int64(round) * simRows
		d.Records = []pserver.Range{{From: first + from, To: first + to}}
	}
	return d
}

// act begins what comes next when all calls of the process have been answered.
func (t *process) act(c *cluster) {
	if t.dead || t.left || t.waiting > 0 {
		return
	}
	share := simShare(t.round, t.generation, t.rank, t.position, max(1, t.members))
	switch t.phase {
	case fetches:
		if t.round == simRounds {
			t.phase = completes
			t.everywhere(c, pserver.Event{Kind: pserver.Complete})
			return
		}
		t.phase = sends
		for _, s := range c.servers {
			for _, name := range s.names {
				if share.Rows > 0 {
					t.call(c, s.index, pserver.Event{Kind: pserver.Deliver, Variable: name})
				}
			}
		}
	case sends:
		t.phase = declares
		for _, s := range c.servers {
			e := pserver.Event{Kind: pserver.Barrier, Share: share}
			if share.Rows > 0 {
				e.Variables = len(s.names)
			}
			t.call(c, s.index, e)
		}
	case declares:
		t.round++
		t.fetch(c)
	case completes:
		t.left = true
	}
}

// fetch asks for the parameters that the next round begins with.
func (t *process) fetch(c *cluster) {
	t.phase = fetches
	for _, s := range c.servers {
		if len(s.names) > 0 {
			t.call(c, s.index, pserver.Event{Kind: pserver.Read})
		}
	}
}

func (t *process) everywhere(c *cluster, e pserver.Event) {
	for _, s := range c.servers {
		t.call(c, s.index, e)
	}
}

func (t *process) call(c *cluster, server int, e pserver.Event) {
	e.Rank, e.Generation, e.Round = t.rank, t.generation, t.round
	t.waiting++
	call := t.calls
	c.send(server, e, func(d pserver.Decision, _ pserver.State) {
		switch {
		case t.dead || t.calls != call:
		case d.Verdict != pserver.Refuse:
			t.waiting--
		case fault.KindOf(d.Err) == fault.Superseded:
			t.calls, t.waiting, t.phase = t.calls+1, 0, joins
			c.joined[t.rank] = t
		default:
			c.Errorf("server %d refuses %+v: %v", server, e, d.Err)
		}
	})
}

// tell answers the Join of a process.
func (t *process) tell(c *cluster, d decision, position int) {
	if t.dead || c.joined[t.rank] != t {
		return
	}
	delete(c.joined, t.rank)
	t.generation, t.position, t.members, t.round = d.generation, position, len(d.members), d.round
	if t.since == 0 {
		t.since = d.generation
	}
	t.fetch(c)
}
