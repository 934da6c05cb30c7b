package pserver_test

import (
	"fmt"
)

// ended reports whether every trainer has left and every server has been told that all have completed.
func (c *cluster) ended() bool {
	for _, t := range c.trainers {
		if !t.left {
			return false
		}
	}
	for _, s := range c.servers {
		if !s.finished {
			return false
		}
	}
	return true
}

func (c *cluster) String() string {
	text := fmt.Sprintf("exchange %v, elastic %v, lock %d, durable %+v, %d messages\n", c.exchange, c.elastic, c.lock, c.durable, len(c.pool))
	for _, s := range c.servers {
		text += fmt.Sprintf("server %d %v: %v\n", s.index, s.names, s.machine)
	}
	for _, t := range c.trainers {
		text += fmt.Sprintf("trainer %d: process %d, generation %d, round %d, phase %d, dead %v, left %v, waits %d\n", t.rank, t.number, t.generation,
			t.round, t.phase, t.dead, t.left, t.waiting)
	}
	return text + fmt.Sprintf("coordinator %+v", *c.leaders[len(c.leaders)-1])
}
