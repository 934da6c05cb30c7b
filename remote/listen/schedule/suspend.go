package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
)

// A Suspension is why a job does not go on that has run; the zero value: it was not suspended.
type Suspension struct {
	For  string // the job that it was suspended for; empty: none
	Held bool   // by a user, until Release
}

// findIn returns a job that waits or runs.
func findIn(m *Machine, id string) (*entry, error) {
	if x := m.jobs[id]; x != nil {
		return x, nil
	}
	return nil, fault.E(fault.NotFound, fault.Got("job "+fault.Quote(id)), fault.Want("a job that waits or runs"))
}

func (e Left) apply(m *Machine, _ *Effects) error {
	x := m.jobs[e.ID]
	if x == nil || !x.runs {
		return nil
	}
	leave(x)
	x.passed, x.since, m.calm = 0, m.now, m.now
	forgetNodes(m)
	return nil
}

func (e Stays) apply(m *Machine, _ *Effects) error {
	if x := m.jobs[e.ID]; x != nil && x.leaving {
		x.leaving, x.pause, x.since = false, Suspension{}, m.now
	}
	return nil
}

func (e Hold) apply(m *Machine, out *Effects) error {
	x, err := findIn(m, e.ID)
	if err != nil {
		return err
	}
	x.pause.Held = true
	if x.runs && !x.leaving {
		x.leaving = true
		out.Suspend = append(out.Suspend, x.ID)
	}
	return nil
}

func (e Release) apply(m *Machine, _ *Effects) error {
	x, err := findIn(m, e.ID)
	if err == nil {
		x.pause.Held = false
	}
	return err
}

// yields reports whether a job may be suspended for another one, now or when its turn is over.
func yields(x, to *entry) bool {
	return x.runs && x.Yields && !x.leaving && x.Priority < to.Priority
}

// suspendFor lets jobs of a lower priority leave if a job fits then, and reports whether it will.
func suspendFor(m *Machine, needs *entry, out *Effects) bool {
	r := m.free()
	free := func(r room, x *entry) {
		add := func(n *node, takes Resources) {
			if i := slices.IndexFunc(r, func(s space) bool { return s.node == n }); i >= 0 {
				r[i].left = r[i].left.plus(takes)
			}
		}
		for i, n := range x.servers {
			add(n, x.Servers[i])
		}
		for _, n := range x.held {
			add(n, x.Trainer)
		}
	}
	fits := func(victims []*entry) bool {
		left := slices.Clone(r)
		for _, x := range victims {
			free(left, x)
		}
		_, _, ok := left.place(&needs.Job, needs.Least)
		return ok
	}
	var victims []*entry
	for _, x := range running(m) {
		switch {
		case x.leaving:
			free(r, x)
		case yields(x, needs) && m.now-x.since >= m.policy.Turn:
			victims = append(victims, x)
		}
	}
	if fits(nil) {
		return true
	}
	shares := m.shares()
	slices.SortStableFunc(victims, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(shares[b.Owner], shares[a.Owner]), cmp.Compare(b.number, a.number))
	})
	enough := slices.IndexFunc(victims, func(x *entry) bool { return fits(victims[:slices.Index(victims, x)+1]) })
	if enough < 0 {
		return false
	}
	victims = victims[:enough+1]
	for i := len(victims) - 1; i >= 0; i-- { // the most important ones stay where the others are enough
		if others := slices.Delete(slices.Clone(victims), i, i+1); fits(others) {
			victims = others
		}
	}
	for _, x := range victims {
		x.leaving, x.pause.For = true, needs.ID
		out.Suspend = append(out.Suspend, x.ID)
	}
	return true
}

// lastTurn is when the turn of a job ends that might be suspended then for one that waits; 0: there is none.
func lastTurn(m *Machine) (first time.Duration) {
	var most *entry
	for _, x := range m.jobs {
		if !x.runs && !x.pause.Held && (most == nil || x.Priority > most.Priority) {
			most = x
		}
	}
	for _, x := range m.jobs {
		if at := x.since + m.policy.Turn; most != nil && yields(x, most) && at > m.now && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}
