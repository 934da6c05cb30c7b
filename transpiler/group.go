package transpiler

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// A group is the smallest set of update ops that one server must run together: ops that share a variable which none of
// them has a copy of. Normally it is the clipping, regularization and optimizer ops of one parameter.
type group struct {
	ops           []*node  // in order
	params        []string // parameters that it updates, in the order of the program's declarations
	accumulators  []string // other persistable variables that it writes, in the same order
	fixed         []string // persistable variables that it only reads, in the same order
	contributions []string // what trainers compute for it: gradients, in the order of their last producers
	temporaries   []string // its other variables, in order of first use

	paramOf map[string]string // contribution -> the parameter that it is the gradient of
}

// parameter returns the parameter that a contribution is the gradient of, "" when the program does not say. producer is the
// op that computes the contribution.
func (g *group) parameter(contribution string, producer *node) string {
	for _, n := range g.ops {
		for _, pair := range n.op.RoleVars() {
			if pair[1] == contribution && slices.Contains(g.params, pair[0]) {
				return pair[0]
			}
		}
	}
	if len(g.params) == 1 {
		return g.params[0]
	}
	for _, name := range g.params {
		if program.GradName(name) == contribution {
			return name
		}
	}
	if pairs := producer.op.RoleVars(); len(pairs) == 1 && slices.Contains(g.params, pairs[0][0]) {
		return pairs[0][0]
	}
	return ""
}

// gradientOf returns the contribution of a parameter, or "".
func (g *group) gradientOf(param string) string {
	for _, c := range g.contributions {
		if g.paramOf[c] == param {
			return c
		}
	}
	return ""
}

// norms returns the ops of the group whose results all servers combine.
func (g *group) norms() []*node {
	var norms []*node
	for _, n := range g.ops {
		if n.norm {
			norms = append(norms, n)
		}
	}
	return norms
}

// prepare splits the ops in two: what must run before norms can be combined, and the update itself. Both keep
// their order. Ops that are not late commute with those that are, so moving the first part ahead changes nothing.
func (g *group) prepare() (before, update []*node) {
	last := -1
	for i, n := range g.ops {
		if n.norm {
			last = i
		}
	}
	for i, n := range g.ops {
		if i <= last && !n.late {
			before = append(before, n)
		} else {
			update = append(update, n)
		}
	}
	return before, update
}
