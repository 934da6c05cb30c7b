package transpiler

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A fetched variable exists on servers only. Trainers receive it in every step to report it.
type fetched struct {
	declaration program.Var
	parts       []serverVar
}

// findFetched finds the variables that trainers must be able to report. If no trainer op computes one, it finds the server that has it.
func findFetched(s *state) error {
	var faults fault.List
	seen := map[string]bool{}
	for _, name := range s.cfg.Fetch {
		if seen[name] {
			continue
		}
		seen[name] = true
		v, ok := s.global().Var(name)
		if !ok {
			faults.Add(unknownFetch(s, name))
			continue
		}
		if v.Kind == program.SelectedRows {
			faults.Add(fault.E(fault.Unsupported, fault.At("fetch"), fault.Var(name), fault.Got("a sparse gradient: each trainer has other rows"),
				fault.Want("a dense variable"), fault.Hint("fetch the parameter, or look the table up without layers.Sparse")))
			continue
		}
		if isOnTrainer(s, name) {
			continue
		}
		parts := s.serverVars.of(name)
		if parts == nil && (s.isRate(name) || s.scalars[name]) {
			parts = []serverVar{{variable: name, at: v.Copy(""), server: s.firstActive(), total: rowsOf(v.Dims)}}
		}
		if parts == nil {
			faults.Add(fault.E(fault.Unsupported, fault.At("fetch"), fault.Var(name),
				fault.Got("a temporary of the update; each server computes a part of it"),
				fault.Want("a variable of trainers, or a persistable one"), fault.Hint("fetch the parameter or its gradient")))
			continue
		}
		declaration := v.Copy("")
		declaration.Persistable, declaration.IsParameter = false, false
		s.fetched = append(s.fetched, fetched{declaration, parts})
	}
	return faults.Err()
}

func unknownFetch(s *state, name string) *fault.Fault {
	unknown := s.global().Unknown(name, "the name of one")
	unknown.Where = "fetch"
	return unknown
}

// isOnTrainer reports whether the trainer program has the variable with its value.
func isOnTrainer(s *state, name string) bool {
	use := s.use(name)
	if s.tables[name] != nil || isKeys(s, name) {
		return false
	}
	if len(use.readers)+len(use.writers) == 0 || s.isParameter(name) {
		return true
	}
	for _, nodes := range [][]*node{use.readers, use.writers} {
		for _, n := range nodes {
			if staysOnTrainer(s, n) {
				return true
			}
		}
	}
	return s.variable(name).Persistable && s.serverVars.of(name) == nil
}
