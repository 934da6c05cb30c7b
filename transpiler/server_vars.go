package transpiler

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A serverVar is a persistable variable, or some rows of one, that a server keeps from round to round.
type serverVar struct {
	variable string      // of the user's program
	at       program.Var // its declaration at the server
	server   int
	cut      bool   // has only some rows, from first on
	first    int64  // first row
	total    int64  // rows of the whole variable
	striped  bool   // its rows are in the order of stripes
	table    string // the distributed table that it is, or goes with; empty: none
}

// A serverVarTable lists the variables of servers. For each server it has the variables of its shards, then shared variables, then forward state.
type serverVarTable struct {
	byServer   map[int][]serverVar
	byVariable map[string][]serverVar
}

func (t *serverVarTable) add(h serverVar) {
	if t.byServer == nil {
		t.byServer, t.byVariable = map[int][]serverVar{}, map[string][]serverVar{}
	}
	t.byServer[h.server] = append(t.byServer[h.server], h)
	t.byVariable[h.variable] = append(t.byVariable[h.variable], h)
}

// on returns the variables of one server, in order.
func (t *serverVarTable) on(server int) []serverVar { return t.byServer[server] }

// of returns the parts of a variable: its slices in order of rows, or the copy on the lowest server. It returns nil if no server keeps the
// variable.
func (t *serverVarTable) of(variable string) []serverVar {
	var parts []serverVar
	for _, h := range t.byVariable[variable] {
		if h.cut || len(parts) == 0 {
			parts = append(parts, h)
		}
	}
	slices.SortFunc(parts, func(a, b serverVar) int { return cmp.Compare(a.first, b.first) })
	return parts
}

// listServerVars lists the variables that every server keeps.
func listServerVars(s *state) error {
	for server := range s.cfg.PServers {
		for _, u := range s.shardsOn(server) {
			for _, name := range slices.Concat(u.group.params, u.group.accumulators, u.group.fixed) {
				if s.isCut(u, name) || !s.isFixed(name) {
					s.serverVars.add(serverVarOf(s, u, name))
				}
			}
		}
		for _, name := range sharedOn(s, server) {
			v := s.variable(name)
			s.serverVars.add(serverVar{variable: name, at: v.Copy(""), server: server, total: rowsOf(v.Dims)})
		}
	}
	for _, f := range s.forward {
		v := s.variable(f.name)
		s.serverVars.add(serverVar{variable: f.name, at: v.Copy(""), server: f.server, total: rowsOf(v.Dims)})
	}
	return nil
}

func serverVarOf(s *state, u *shard, name string) serverVar {
	h := serverVar{variable: name, at: s.at(u, name), server: u.server, total: rowsOf(s.variable(name).Dims)}
	if s.isCut(u, name) {
		h.cut, h.first, h.striped = true, u.first, u.striped
	}
	switch {
	case s.tables[name] != nil:
		h.table = name
	case len(u.group.params) == 1 && s.tables[u.group.params[0]] != nil:
		h.table = u.group.params[0]
	}
	return h
}

// shardsOn returns the shards of a server, in order.
func (s *state) shardsOn(server int) []*shard {
	return slices.DeleteFunc(slices.Clone(s.shards), func(u *shard) bool { return u.server != server })
}

// isActive reports whether a server runs updates, and so needs learning rates and global scalars. If the program has only a schedule, server 0 runs
// it.
func (s *state) isActive(server int) bool {
	return len(s.shardsOn(server)) > 0 || len(s.shards) == 0 && server == 0
}

// firstActive returns the lowest active server.
func (s *state) firstActive() int {
	first := 0
	for i, u := range s.shards {
		if i == 0 || u.server < first {
			first = u.server
		}
	}
	return first
}

// sharedOn returns the persistable variables that a server needs a copy of, because ops of its shards, of the learning-rate block or of the global
// part use them. They are in the order of their declaration. A server that is not active needs none.
func sharedOn(s *state, server int) []string {
	if !s.isActive(server) {
		return nil
	}
	shards := s.shardsOn(server)
	needed := map[string]bool{}
	need := func(n *node) {
		for _, name := range slices.Concat(n.reads, n.writes) {
			if s.variable(name).Persistable && (s.isFixed(name) || s.isRate(name)) {
				needed[name] = true
			}
		}
	}
	for _, n := range s.nodes {
		if n.duty == dutyRate || n.duty == dutyScalar {
			need(n)
		}
	}
	for _, u := range shards {
		for _, n := range u.group.ops {
			need(n)
		}
		for _, name := range u.group.fixed {
			if s.isCut(u, name) {
				delete(needed, name)
			}
		}
	}
	var names []string
	for _, v := range s.global().Vars() {
		if needed[v.Name] {
			names = append(names, v.Name)
		}
	}
	return names
}

// findTrainerState finds the forward state whose op has no rule to merge it. State that does not depend on rows, such as a counter of steps, is
// equal on every trainer that has rows, so the first of them sends it. State that depends on rows differs between trainers, and no rule makes one
// value of it. So findTrainerState refuses it.
func findTrainerState(s *state) error {
	ofRows := map[string]bool{} // depends on rows, so it differs between trainers
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			continue
		}
		varies := n.op.Type != "share_totals" && (n.def.Class == ops.Read || n.def.Class == ops.Random ||
			slices.ContainsFunc(n.reads, func(name string) bool { return ofRows[name] || isFed(s, name) }))
		for _, name := range n.writes {
			ofRows[name] = ofRows[name] || varies
			v := s.variable(name)
			if !v.Persistable || v.Kind != program.LoDTensor {
				continue
			}
			switch f := forwardStateOf(s, name); {
			case f == nil && !varies:
				s.forward = append(s.forward, &forwardState{name: name, merge: ops.MergeFirst})
			case varies && (f == nil || f.merge == ops.MergeFirst):
				return fault.E(fault.Unsupported, fault.On(n.op), fault.Var(name),
					fault.Got("a persistable variable that depends on the rows of one trainer"),
					fault.Want("state with a rule to merge it over trainers: that of an op, or a variable to which one sum or elementwise_add adds sums over the batch"))
			}
		}
	}
	return nil
}

// isFed reports whether the caller of a step feeds the variable.
func isFed(s *state, name string) bool {
	return len(s.use(name).writers) == 0 && !s.variable(name).Persistable
}
