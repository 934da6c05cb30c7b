package transpiler

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A heldVar is a persistable variable, or some rows of one, that a server keeps from round to round.
type heldVar struct {
	variable string      // of the user's program
	at       program.Var // its declaration at the server
	server   int
	cut      bool  // holds the rows from first on, and not all of the variable
	first    int64 // first row
	total    int64 // rows of the whole variable
}

// A heldTable lists what servers hold: of each server what belongs to units, then what is shared, then forward state.
type heldTable struct {
	byServer   map[int][]heldVar
	byVariable map[string][]heldVar
}

func (t *heldTable) add(h heldVar) {
	if t.byServer == nil {
		t.byServer, t.byVariable = map[int][]heldVar{}, map[string][]heldVar{}
	}
	t.byServer[h.server] = append(t.byServer[h.server], h)
	t.byVariable[h.variable] = append(t.byVariable[h.variable], h)
}

// on returns what one server holds, in order.
func (t *heldTable) on(server int) []heldVar { return t.byServer[server] }

// of returns the parts that make up a variable: its slices in order of rows, or one copy of the whole, that of the lowest
// server. It returns nil when no server holds the variable.
func (t *heldTable) of(variable string) []heldVar {
	var parts []heldVar
	for _, h := range t.byVariable[variable] {
		if h.cut || len(parts) == 0 {
			parts = append(parts, h)
		}
	}
	slices.SortFunc(parts, func(a, b heldVar) int { return cmp.Compare(a.first, b.first) })
	return parts
}

// hold lists what every server holds.
func hold(s *state) error {
	for server := range s.cfg.PServers {
		for _, u := range s.unitsOn(server) {
			for _, name := range slices.Concat(u.group.params, u.group.accumulators, u.group.fixed) {
				if s.isCut(u, name) || !s.isFixed(name) {
					s.held.add(s.heldBy(u, name))
				}
			}
		}
		for _, name := range s.sharedOn(server) {
			v := s.variable(name)
			s.held.add(heldVar{variable: name, at: v.Copy(""), server: server, total: rowsOf(v.Dims)})
		}
	}
	for _, f := range s.forward {
		v := s.variable(f.name)
		s.held.add(heldVar{variable: f.name, at: v.Copy(""), server: f.server, total: rowsOf(v.Dims)})
	}
	return nil
}

func (s *state) heldBy(u *unit, name string) heldVar {
	h := heldVar{variable: name, at: s.at(u, name), server: u.server, total: rowsOf(s.variable(name).Dims)}
	if s.isCut(u, name) {
		h.cut, h.first = true, u.first
	}
	return h
}

// unitsOn returns the units of a server, in order.
func (s *state) unitsOn(server int) []*unit {
	return slices.DeleteFunc(slices.Clone(s.units), func(u *unit) bool { return u.server != server })
}

// isActive reports whether a server runs updates, and so needs learning rates and global scalars. When there is nothing but a
// schedule, server 0 runs it.
func (s *state) isActive(server int) bool {
	return len(s.unitsOn(server)) > 0 || len(s.units) == 0 && server == 0
}

// firstActive returns the lowest active server.
func (s *state) firstActive() int {
	first := 0
	for i, u := range s.units {
		if i == 0 || u.server < first {
			first = u.server
		}
	}
	return first
}

// sharedOn returns the persistable variables that a server has a copy of because ops of its units, of the learning-rate block or of the
// global part need it, in the order of their declaration. A server that is not active needs none.
func (s *state) sharedOn(server int) []string {
	if !s.isActive(server) {
		return nil
	}
	units := s.unitsOn(server)
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
	for _, u := range units {
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

// findTrainerState finds the forward state that its op has no rule for. What does not depend on rows, such as a counter of steps, is the same
// on every trainer that has some, so the first of them tells it to the others. What follows from the rows of one trainer differs between trainers, so
// without a way to merge it there is no one value that a model could be saved with.
func (s *state) findTrainerState() error {
	ofRows := map[string]bool{} // differs between trainers
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			continue
		}
		varies := n.def.Class == ops.Read || n.def.Class == ops.Random ||
			slices.ContainsFunc(n.reads, func(name string) bool { return ofRows[name] || s.isFed(name) })
		for _, name := range n.writes {
			ofRows[name] = ofRows[name] || varies
			v := s.variable(name)
			if !v.Persistable || v.Kind != program.LoDTensor {
				continue
			}
			switch f := s.forwardStateOf(name); {
			case f == nil && !varies:
				s.forward = append(s.forward, &forwardState{name: name, merge: ops.MergeFirst})
			case varies && (f == nil || f.merge == ops.MergeFirst):
				return fault.E(fault.Unsupported, fault.On(n.op), fault.Var(name),
					fault.Got("a persistable variable that follows from the rows of one trainer"),
					fault.Want("state that the op knows how to merge over trainers"))
			}
		}
	}
	return nil
}

// isFed reports whether the caller of a step gives the variable its value.
func (s *state) isFed(name string) bool {
	return len(s.use(name).writers) == 0 && !s.variable(name).Persistable
}
