package waits

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/proto/job"
)

// RootFirst sorts waits for a person: first the waits for somebody who waits for nobody, then the waits for those, and so on. Waits at the same
// distance from the root stand in the order of their Since. Those who wait for each other in a circle have the same distance, which lies behind every
// wait of theirs for somebody outside the circle. The time is linear in the waits and their names, but for sorting.
func RootFirst(list []*job.Wait) []*job.Wait {
	g := graph{waits: map[string][]*job.Wait{}, nodes: map[string]*node{}, depths: map[*job.Wait]int{}}
	for _, w := range list {
		g.waits[w.Who] = append(g.waits[w.Who], w)
	}
	for _, w := range list {
		if g.nodes[w.Who] == nil {
			g.visit(w.Who)
		}
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b *job.Wait) int {
		return cmp.Or(cmp.Compare(g.depths[a], g.depths[b]), a.Since.AsTime().Compare(b.Since.AsTime()))
	})
	return out
}

// graph has an edge from everyone who waits to those who are waited for. Its circles are found by Tarjan's algorithm for strongly connected
// components, which ends a component after all that it leads to.
type graph struct {
	waits  map[string][]*job.Wait // by who waits
	nodes  map[string]*node
	stack  []*node
	depths map[*job.Wait]int
}

// node is somebody who waits or is waited for.
type node struct {
	name       string
	index, low int  // of Tarjan's algorithm
	open       bool // on the stack: its component has not ended
	depth      int  // of a wait for it; valid when it is not open
}

func (g *graph) visit(name string) *node {
	n := &node{name: name, index: len(g.nodes), low: len(g.nodes), open: true}
	g.nodes[name] = n
	g.stack = append(g.stack, n)
	for _, w := range g.waits[name] {
		for _, by := range w.By {
			next := g.nodes[by]
			if next == nil {
				next = g.visit(by)
				n.low = min(n.low, next.low)
			} else if next.open {
				n.low = min(n.low, next.index)
			}
		}
	}
	if n.low == n.index {
		i := len(g.stack) - 1
		for g.stack[i] != n {
			i--
		}
		members := g.stack[i:]
		g.stack = g.stack[:i]
		g.end(members)
	}
	return n
}

// end finds the depths of the waits of those who wait for each other, when those of everyone else whom they wait for are known.
func (g *graph) end(members []*node) {
	deepest, waiting, circle := 0, false, []*job.Wait{}
	for _, n := range members {
		for _, w := range g.waits[n.name] {
			waiting = true
			for _, by := range w.By {
				if next := g.nodes[by]; !next.open {
					g.depths[w] = max(g.depths[w], next.depth)
				} else if len(circle) == 0 || circle[len(circle)-1] != w {
					circle = append(circle, w)
				}
			}
			deepest = max(deepest, g.depths[w])
		}
	}
	if len(circle) > 0 {
		deepest++
		for _, w := range circle {
			g.depths[w] = deepest
		}
	}
	for _, n := range members {
		if n.open = false; waiting {
			n.depth = deepest + 1
		}
	}
}
