package chaos_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
)

// histories returns how many trainers may have shared each round. The report of a step dies with a trainer that has not delivered it: such a step is
// not seen, and belongs to the generation of the one before or of the one after.
func histories(t *testing.T, steps []executor.StepResult) [][]int {
	seen := make([]int, rounds())
	for _, s := range steps {
		seen[s.Step] = s.Trainers
	}
	all := [][]int{nil}
	for round, n := range seen {
		options := []int{n}
		if n == 0 {
			before, after := 0, 0
			for r := round; r >= 0 && before == 0; r-- {
				before = seen[r]
			}
			for r := round; r < len(seen) && after == 0; r++ {
				after = seen[r]
			}
			if options = []int{before}; after != before {
				options = append(options, after)
			}
		}
		var longer [][]int
		for _, h := range all {
			for _, n := range options {
				longer = append(longer, append(slices.Clone(h), n))
			}
		}
		if all = longer; len(all) > 256 {
			t.Fatalf("only %d of %d steps were seen", len(steps), rounds())
		}
	}
	return all
}
