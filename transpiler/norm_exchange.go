package transpiler

import "fmt"

// A normExchange names what servers exchange in order to compute norms together. The names are the same on all of them.
type normExchange struct {
	norms   []*node                    // of all groups, in order
	partial map[*unit]map[*node]string // exact partial sums, one per norm of a unit
	rows    []string                   // per norm: the partial sum of one server, where it must be made from several or none
	own     string                     // the partial sums of one server, one norm after another
	all     []string                   // those of each server
	total   string                     // the sum over servers
	totals  []string                   // per norm: its part of total
}

// newNormExchange returns nil when the program has no norm that servers compute together.
func newNormExchange(s *state) *normExchange {
	e := &normExchange{partial: map[*unit]map[*node]string{}}
	for _, n := range s.nodes {
		if n.norm {
			e.norms = append(e.norms, n)
		}
	}
	if len(e.norms) == 0 {
		return nil
	}
	for _, u := range s.units {
		e.partial[u] = map[*node]string{}
		for _, n := range u.group.norms() {
			name := n.writes[0] + ".partial"
			if u.block != Whole {
				name = fmt.Sprintf("%s.block%d", name, u.block)
			}
			e.partial[u][n] = s.names.free(name)
		}
	}
	e.own = s.names.free("norms.partial")
	for i := range s.cfg.PServers {
		e.all = append(e.all, s.names.free(fmt.Sprintf("norms.partial.pserver_%d", i)))
	}
	e.total = s.names.free("norms.total")
	for k := range e.norms {
		e.rows = append(e.rows, s.names.free(fmt.Sprintf("norms.partial.%d", k)))
		e.totals = append(e.totals, s.names.free(fmt.Sprintf("norms.total.%d", k)))
	}
	return e
}
