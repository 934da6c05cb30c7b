package pserver_test

import (
	"cmp"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/pserver"
)

// A decision is what a coordinator makes durable before it tells anybody.
type decision struct {
	generation uint64
	members    []int // ranks
	round      uint64
	commit     []pserver.Declared
	processes  []*process
}

// A leader is one life of the coordinator.
type leader struct {
	fence   uint64
	phase   string   // starting, freezing, deciding, resuming, serving, ended
	last    decision // that it knows of
	states  map[int]pserver.State
	waiting int
}

// elect gives the lock to a new coordinator.
func (c *cluster) elect() {
	c.lock += 1 + uint64(c.rand.IntN(3))
	c.leaders = append(c.leaders, &leader{fence: c.lock, phase: "starting", last: c.durable})
}

func (l *leader) act(c *cluster) {
	switch {
	case l.waiting > 0:
	case l.phase == "starting", l.phase == "serving" && l.mustRegroup(c):
		l.phase, l.states = "freezing", map[int]pserver.State{}
		l.everywhere(c, pserver.Event{Kind: pserver.Freeze, Generation: l.last.generation}, func(server int, s pserver.State) { l.states[server] = s })
	case l.phase == "freezing":
		l.phase = "deciding"
	case l.phase == "deciding":
		l.decide(c)
	case l.phase == "resuming":
		l.phase = "serving"
		l.tell(c)
	}
}

// mustRegroup reports whether somebody waits to be told of a generation, a member is lost, or all have left and a server does not know.
func (l *leader) mustRegroup(c *cluster) bool {
	left := true
	for _, t := range c.trainers {
		if t.dead && slices.Contains(l.last.members, t.rank) && c.elastic {
			return true
		}
		left = left && t.left
	}
	return len(c.joined) > 0 || left
}

// decide waits until the members are there, makes its decision durable and begins the generation.
func (l *leader) decide(c *cluster) {
	d := decision{generation: l.last.generation + 1}
	for rank, t := range c.trainers {
		switch {
		case t.left:
		case c.joined[rank] == t:
			d.members, d.processes = append(d.members, rank), append(d.processes, t)
		case !t.dead || !c.elastic:
			return
		}
	}
	if len(d.members) == 0 && slices.ContainsFunc(c.trainers, func(t *process) bool { return !t.left }) {
		return
	}
	if l.fence != c.lock {
		l.phase = "ended"
		return
	}
	d.round, d.commit = l.outcome()
	c.durable, c.log[d.generation], l.last, l.phase = d, d.members, d, "resuming"
	e := pserver.Event{Kind: pserver.Resume, Generation: d.generation, Round: d.round, Commit: d.commit}
	for _, t := range d.processes {
		e.Members = append(e.Members, pserver.Member{Rank: t.rank, Since: cmp.Or(t.since, d.generation)})
	}
	l.everywhere(c, e, func(int, pserver.State) {})
	if c.eager {
		l.tell(c)
	}
}

// outcome is the rule of sync rounds.
func (l *leader) outcome() (target uint64, commit []pserver.Declared) {
	equal := true
	declared, completed := map[int]pserver.Declared{}, map[int]bool{}
	for _, s := range l.states {
		equal = equal && s.Round == l.states[0].Round
		if s.Round >= target {
			target, commit = s.Round, s.Applied
		}
		for _, d := range s.Declared {
			declared[d.Rank] = d
		}
		for _, rank := range s.Completed {
			completed[rank] = true
		}
	}
	all := len(declared) > 0
	for _, rank := range l.last.members {
		_, ok := declared[rank]
		all = all && (ok || completed[rank])
	}
	if !equal || !all {
		return target, commit
	}
	union := slices.SortedFunc(maps.Values(declared), func(a, b pserver.Declared) int { return cmp.Compare(a.Rank, b.Rank) })
	return target + 1, union
}

func (l *leader) tell(c *cluster) {
	for position, t := range l.last.processes {
		t.tell(c, l.last, position)
	}
}

// everywhere calls every server. A coordinator that hears of a newer one ends itself.
func (l *leader) everywhere(c *cluster, e pserver.Event, answered func(server int, s pserver.State)) {
	e.Fence = l.fence
	for i := range c.servers {
		l.waiting++
		c.send(i, e, func(d pserver.Decision, s pserver.State) {
			switch {
			case d.Verdict != pserver.Refuse:
				l.waiting--
				answered(i, s)
			case fault.KindOf(d.Err) == fault.Fenced:
				l.phase = "ended"
			case l.fence == c.lock:
				c.Errorf("server %d refuses %+v: %v", i, e, d.Err)
			}
		})
	}
}
