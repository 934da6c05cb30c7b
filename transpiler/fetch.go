package transpiler

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A fetched variable lives on servers only; trainers receive it in every step in order to report it.
type fetched struct {
	declaration program.Var
	parts       []heldVar
}

// findFetched looks up what trainers must be able to report, and where they get it from when no op of theirs computes it.
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
			faults.Add(s.unknownFetch(name))
			continue
		}
		if s.isOnTrainer(name) {
			continue
		}
		parts := s.held.of(name)
		if parts == nil && (s.isRate(name) || s.scalars[name]) {
			parts = []heldVar{{variable: name, at: v.Copy(""), server: s.firstActive(), total: rowsOf(v.Dims)}}
		}
		if parts == nil {
			faults.Add(fault.E(fault.Unsupported, fault.At("fetch"), fault.Var(name),
				fault.Got("a temporary of the update, of which each server knows a part"),
				fault.Want("a variable of trainers, or a persistable one"), fault.Hint("fetch the parameter or its gradient")))
			continue
		}
		declaration := v.Copy("")
		declaration.Persistable, declaration.IsParameter = false, false
		s.fetched = append(s.fetched, fetched{declaration, parts})
	}
	return faults.Err()
}

func (s *state) unknownFetch(name string) *fault.Fault {
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

// isOnTrainer reports whether a variable of the user's program is in the trainer's too, with its value.
func (s *state) isOnTrainer(name string) bool {
	use := s.use(name)
	if len(use.readers)+len(use.writers) == 0 || s.isParameter(name) {
		return true
	}
	for _, nodes := range [][]*node{use.readers, use.writers} {
		for _, n := range nodes {
			if s.staysOnTrainer(n) {
				return true
			}
		}
	}
	return s.variable(name).Persistable && s.held.of(name) == nil
}

// closest returns the candidate that takes the fewest edits to become name, the first of several, or "" when none is near
// enough to have been meant.
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
