package pserver_test

import (
	"slices"

	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// A way is how a simulated job goes back to a checkpoint. Every round has one, of all servers.
type way struct {
	ledgers map[id.Round][]byte
	under   bool // the job is on its way
	cut     id.Round
	asked   uint64        // history that servers are asked to begin
	history uint64        // that all servers have begun
	floor   id.Generation // generations up to it belong to earlier histories
}

// loseServer takes a server away with all that it has, and puts a new one in its place. The job goes back to some checkpoint. A job does not that has lost a
// server on its way, or whose trainers begin to leave: it starts over.
func (c *cluster) loseServer() {
	if c.back.under || slices.ContainsFunc(c.trainers, func(t *process) bool { return t.left }) ||
		slices.ContainsFunc(c.servers, func(s *simServer) bool { return s.finished }) {
		return
	}
	least := c.servers[0].machine.Round()
	for _, s := range c.servers {
		least = min(least, s.machine.Round())
	}
	i := c.rand.IntN(len(c.servers))
	names := c.servers[i].names
	c.servers[i] = &simServer{index: i, machine: pserver.WithBackups(pserver.NewRounds(c.limit, names, c.start), c.backup, i == 0), names: names, arrived: map[string]id.Generation{}, begun: c.start}
	c.servers[i].machine.Await(c.back.asked + 1)
	c.back.under, c.back.cut = true, c.start+id.Round(c.rand.IntN(int(least-c.start)+1))
	c.elect()
}

// goBack lets the coordinator that holds the lock ask all servers for the state of the checkpoint.
func (c *cluster) goBack() {
	l := c.leaders[len(c.leaders)-1]
	c.back.asked++
	l.phase, c.back.floor = "going back", c.durable.generation
	l.everywhere(c, pserver.Restored{Generation: c.durable.generation, Fence: l.fence, Round: c.back.cut, History: c.back.asked},
		func(int, pserver.State) {})
}

// wentBack makes the checkpoint durable as what the job goes on from, when all servers have its state. The next coordinator goes on.
func (l *leader) wentBack(c *cluster) {
	if l.fence != c.lock {
		l.phase = "ended"
		return
	}
	c.back.under, c.back.history = false, c.back.asked
	c.durable.round, c.durable.commit = c.back.cut, nil
	c.applied = c.applied[:c.back.cut-c.start]
	c.elect()
}

// restored puts the state of the checkpoint in the place of what the server has.
func (s *simServer) restored(c *cluster, e pserver.Restored) {
	s.busy, s.arrives, s.finished, s.begun = false, false, false, e.Round
	clear(s.arrived)
	if s.index > 0 {
		return
	}
	c.ledger = pserver.Ledger{}
	if b, ok := c.back.ledgers[e.Round]; ok && e.Round > c.start {
		l, err := pserver.DecodeLedger(b)
		if err != nil {
			c.Fatal(err)
		}
		c.ledger = *l
	}
}
