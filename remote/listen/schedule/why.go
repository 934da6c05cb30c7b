package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Reason is why a job waits.
type Reason struct {
	Before  int // jobs that stand before it in the queue
	Needs   Resources
	Free    Resources // on nodes where jobs may start
	Has     Resources // of these nodes
	Closed  bool      // there is no such node
	Returns int       // trainers that elastic jobs are giving back
	Leaving []string  // jobs that are being suspended
	Suspension
	Since time.Duration
}

// Why tells why a job waits. ok is false for one that does not.
func Why(m *Machine, id string) (r Reason, ok bool) {
	if x := m.jobs[id]; x != nil && x.pause.Held {
		return Reason{Suspension: x.pause, Since: x.since}, !x.runs
	}
	line := m.line()
	at := slices.IndexFunc(line, func(x *entry) bool { return x.ID == id })
	if at < 0 {
		return r, false
	}
	r = Reason{Before: at, Needs: line[at].needs(), Since: line[at].since, Suspension: line[at].pause, Closed: true}
	for _, s := range m.free() {
		if !s.gone && !s.Cordoned {
			r.Closed = false
			r.Has, r.Free = r.Has.plus(s.Has), r.Free.plus(Resources{max(0, s.left.Cores), max(0, s.left.Memory)})
		}
	}
	if r.Has.Cores == 0 {
		r.Needs.Cores = 0
	}
	if r.Has.Memory == 0 {
		r.Needs.Memory = 0
	}
	for _, x := range running(m) {
		r.Returns += max(0, len(x.held)-x.want)
		if x.leaving && x.pause.For == id {
			r.Leaving = append(r.Leaving, x.ID)
		}
	}
	return r, true
}

// String says what the job waits for: "4 cores; free: 1 of 2 cores; 2 jobs are before it".
func (r Reason) String() string {
	if r.Held {
		return "\"edl jobs resume\": a user has suspended it"
	}
	if r.Closed {
		text := "a node where jobs may start: all are cordoned or gone"
		if r.For != "" {
			text += "; suspended for job " + r.For
		}
		return text
	}
	text := r.Needs.String()
	if r.Needs.Cores == 0 && r.Needs.Memory != 0 {
		text = MemoryText(r.Needs.Memory)
	}
	if r.Has.Cores > 0 && r.Needs.Cores > 0 {
		text += fmt.Sprintf("; free: %s of %s", CoresNumber(r.Free.Cores), CoresText(r.Has.Cores))
	}
	if r.Has.Memory > 0 && r.Needs.Memory > 0 {
		text += fmt.Sprintf("; free: %s of %s", MemoryText(r.Free.Memory), MemoryText(r.Has.Memory))
	}
	switch {
	case r.Before == 1:
		text += "; 1 job is before it"
	case r.Before > 1:
		text += fmt.Sprintf("; %d jobs are before it", r.Before)
	case r.Returns > 0:
		text += fmt.Sprintf("; elastic jobs give %d trainers back", r.Returns)
	case len(r.Leaving) > 0:
		text += "; suspended for it: " + listed(r.Leaving)
	}
	if r.For != "" {
		text += "; suspended for job " + r.For
	}
	return text
}

// listed writes the first of some names.
func listed(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Takes returns what a job that runs has. ok is false for one that does not run.
func Takes(m *Machine, id string) (r Resources, ok bool) {
	if x := m.jobs[id]; x != nil && x.runs {
		return x.takes(), true
	}
	return r, false
}

// A Usage is what jobs have of a node.
type Usage struct {
	Node
	Used Resources
	Jobs int
}

// Usages returns what jobs have of each node.
func Usages(m *Machine) []Usage {
	var list []Usage
	for _, n := range m.nodes {
		u := Usage{Node: n.Node, Used: n.used}
		for _, x := range m.jobs {
			if slices.Contains(x.servers, n) || slices.Contains(x.held, n) {
				u.Jobs++
			}
		}
		list = append(list, u)
	}
	return list
}
