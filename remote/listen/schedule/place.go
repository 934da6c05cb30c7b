package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/edl-go/edl/fault"
)

// A Node is a machine that runs roles.
type Node struct {
	Name     string
	Has      Resources // a resource of which it has 0 is not counted there
	Cordoned bool      // what runs there goes on, and nothing starts there
}

// A node is a Node, and what jobs have of it.
type node struct {
	Node
	used Resources
	gone bool // it was not in the last list: it stays as long as a job has something of it
}

// setNodes takes over a list of nodes.
func (m *Machine) setNodes(list []Node) {
	for _, n := range m.nodes {
		n.gone = true
	}
	for _, l := range list {
		i := slices.IndexFunc(m.nodes, func(n *node) bool { return n.Name == l.Name })
		if i < 0 {
			m.nodes = append(m.nodes, &node{Node: l})
			continue
		}
		m.nodes[i].Node, m.nodes[i].gone = l, false
	}
	slices.SortFunc(m.nodes, func(a, b *node) int { return cmp.Compare(a.Name, b.Name) })
	forgetNodes(m)
}

// forgetNodes drops nodes that are gone and of which no job has anything.
func forgetNodes(m *Machine) {
	needed := map[*node]bool{}
	for _, x := range m.jobs {
		for _, n := range slices.Concat(x.servers, x.held) {
			needed[n] = true
		}
	}
	m.nodes = slices.DeleteFunc(m.nodes, func(n *node) bool { return n.gone && !needed[n] })
}

// A room is what is left of nodes.
type room []space

type space struct {
	*node
	left Resources
}

// free is the room that there is now.
func (m *Machine) free() room {
	var r room
	for _, n := range m.nodes {
		r = append(r, space{n, n.Has.minus(n.used)})
	}
	return r
}

// fits reports whether there is room for a role.
func (s space) fits(role Resources) bool {
	return !s.gone && !s.Cordoned && (s.Has.Cores == 0 || role.Cores == 0 || role.Cores <= s.left.Cores) && (s.Has.Memory == 0 || role.Memory == 0 || role.Memory <= s.left.Memory)
}

// take takes room for a role on the node that has the least left and has enough; nil: none has.
func (r room) take(role Resources) *node {
	best := -1
	for i, s := range r {
		if s.fits(role) && (best < 0 || s.left.Cores < r[best].left.Cores || s.left.Cores == r[best].left.Cores && s.left.Memory < r[best].left.Memory) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	r[best].left = r[best].left.minus(role)
	return r[best].node
}

// orAny is take where a role runs already: on the node with the most left, when it fits nowhere.
func (r room) orAny(role Resources) *node {
	if n := r.take(role); n != nil {
		return n
	}
	most := 0
	for i, s := range r {
		if s.left.Cores > r[most].left.Cores {
			most = i
		}
	}
	r[most].left = r[most].left.minus(role)
	return r[most].node
}

// place finds room for all servers of a job and for a number of trainers. It takes that room.
func (r room) place(j *Job, count int) (servers, trainers []*node, ok bool) {
	larger := func(a, b Resources) bool { return a.Cores > b.Cores || a.Cores == b.Cores && a.Memory > b.Memory }
	put := func(roles []Resources) (nodes []*node) {
		for _, role := range roles {
			n := r.take(role)
			if n == nil {
				return nil
			}
			nodes = append(nodes, n)
		}
		return nodes
	}
	all := slices.Repeat([]Resources{j.Trainer}, count)
	first, second := j.Servers, all
	trainersFirst := len(j.Servers) > 0 && larger(j.Trainer, j.Servers[0])
	if trainersFirst { // the largest roles have the least choice
		first, second = second, first
	}
	a := put(first)
	b := put(second)
	if len(a) < len(first) || len(b) < len(second) {
		return nil, nil, false
	}
	if trainersFirst {
		a, b = b, a
	}
	return a, b, true
}

// fitsAtAll refuses a job that does not fit even when nothing else runs.
func (m *Machine) fitsAtAll(j *Job) error {
	var r room
	var has Resources
	for _, n := range m.nodes {
		if n.gone {
			continue
		}
		open := *n
		open.Cordoned = false
		r = append(r, space{&open, n.Has})
		has = has.plus(n.Has)
	}
	if _, _, ok := r.place(j, j.Least); ok || len(r) == 0 { // without nodes it waits for some
		return nil
	}
	where := "this machine"
	if len(r) != 1 {
		where = fmt.Sprintf("%d nodes", len(r))
	}
	return fault.E(fault.TooLarge, fault.At("job "+j.ID), fault.Gotf("%d trainers of %s and %d servers, together %s", j.Least, j.Trainer, len(j.Servers), j.needs()),
		fault.Wantf("at most the %s that %s has, each role on one", has, where), fault.Hint("ask for fewer trainers, or for less for each"))
}

// needs is what a job takes when it starts.
func (j *Job) needs() Resources {
	sum := j.Trainer.times(j.Least)
	for _, s := range j.Servers {
		sum = sum.plus(s)
	}
	return sum
}

// String writes resources for people: "2 cores and 1.5 GiB".
func (r Resources) String() string {
	text := CoresText(r.Cores)
	if r.Memory != 0 {
		text += " and " + MemoryText(r.Memory)
	}
	return text
}

// CoresText writes thousandths of a core.
func CoresText(n int64) string {
	if n == 1000 {
		return "1 core"
	}
	return CoresNumber(n) + " cores"
}

// CoresNumber writes thousandths of a core without a unit.
func CoresNumber(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

// MemoryText writes bytes in MiB or GiB.
func MemoryText(n int64) string {
	if n >= 1<<30 {
		return strconv.FormatFloat(float64(n*10>>30)/10, 'f', -1, 64) + " GiB"
	}
	return strconv.FormatInt((n+1<<20-1)>>20, 10) + " MiB"
}

func namesOf(nodes []*node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}
