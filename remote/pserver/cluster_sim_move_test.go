package pserver_test

import (
	"slices"

	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// mayMove reports whether the state of a simulated job may move: as that of a real one, it does not when trainers begin to leave.
func (l *leader) mayMove(c *cluster) bool {
	for _, s := range l.states {
		if len(s.Completed) > 0 {
			return false
		}
	}
	return c.backup == 0 && !c.back.under && !slices.ContainsFunc(c.trainers, func(t *process) bool { return t.left })
}

// move puts servers of the next placement in the place of all servers, when these have the state that the generation begins with. To some the rows come later. The
// next coordinator begins a generation on them.
func (l *leader) move(c *cluster) {
	d := l.last
	switch {
	case l.fence != c.lock:
		l.phase = "ended"
		return
	case slices.ContainsFunc(c.servers, func(s *simServer) bool { return s.busy || s.machine.Round() != d.round }):
		return
	}
	for _, s := range c.servers {
		s.machine = pserver.NewRounds(c.limit, s.names, c.start)
		later := d.round > c.start && c.rand.IntN(3) > 0
		must(c, s.machine, pserver.Moved{Generation: d.generation, Fence: l.fence, Round: d.round, History: c.back.history, Later: later})
		s.busy, s.arrives, s.arrived = later, later, map[string]id.Generation{}
	}
	c.moves++
	l.phase = "ended"
	c.elect()
}
