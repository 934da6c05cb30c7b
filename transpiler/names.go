package transpiler

import (
	"fmt"

	"github.com/edl-go/edl/program"
)

// nameSpace gives out names that no variable of the user's program has, in any block. One name space serves all role programs, so a
// name means one thing in all of them.
type nameSpace map[string]bool

// newNameSpace takes the names of all variables of p and of its startup program.
func newNameSpace(p *program.Program) nameSpace {
	taken := nameSpace{}
	for _, q := range []*program.Program{p, p.Startup} {
		if q == nil {
			continue
		}
		for _, b := range q.Blocks {
			for _, v := range b.Vars() {
				taken[v.Name] = true
			}
		}
	}
	return taken
}

// free takes and returns want, or the first of want_1, want_2, ... that is not taken.
func (n nameSpace) free(want string) string {
	name := want
	for i := 1; n[name]; i++ {
		name = fmt.Sprintf("%s_%d", want, i)
	}
	n[name] = true
	return name
}

// slice returns the name of slice i of a variable: Fluid's <variable>.block<i> where that is free. Nothing ever parses it.
func (n nameSpace) slice(variable string, i int) string {
	return n.free(fmt.Sprintf("%s.block%d", variable, i))
}
