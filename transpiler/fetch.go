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
	f := fault.E(fault.NotFound, fault.At("fetch"), fault.Var(name), fault.Got("no such variable in the global block"),
		fault.Want("the name of one"))
	var names []string
	for _, v := range s.global().Vars() {
		names = append(names, v.Name)
	}
	if meant := closest(name, names); meant != "" {
		f.Hint = "did you mean " + fault.Quote(meant) + "?"
	}
	return f
}

// isOnTrainer reports whether the trainer program has the variable with its value.
func isOnTrainer(s *state, name string) bool {
	use := s.use(name)
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

// closest returns the candidate with the fewest edits to name, the first of several. It returns "" if none is close enough.
func closest(name string, candidates []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := edits(name, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
