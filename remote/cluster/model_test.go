package cluster

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/edl-go/edl/fault"
)

// An action is what a coordinator does: lead with a fence, commit a value under it, or load one.
type action struct {
	what  string // "lead", "commit" or "load"
	fence uint64
	value string // to commit
}

// An outcome is what came of an action.
type outcome struct {
	kind  fault.Kind // OK; Fenced; Unavailable: not known
	value string     // loaded
}

// held is what is true at one moment: who leads, 0 when that one has been told that it does not, and what is kept.
type held struct {
	fence uint64
	value string
}

// fencing is the model: only who leads changes what is kept, nobody leads again who has been told that it does not, and what is not known happened or
// did not.
var fencing = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{held{}} },
	Step: func(state, input, output any) []any {
		s, a, o := state.(held), input.(action), output.(outcome)
		leads := s.fence == a.fence
		switch {
		case a.what == "lead":
			if a.fence > s.fence {
				return []any{held{a.fence, s.value}}
			}
		case a.what == "load":
			if s.value == o.value {
				return []any{s}
			}
		case o.kind == fault.OK:
			if leads {
				return []any{held{a.fence, a.value}}
			}
		case o.kind == fault.Fenced:
			if leads {
				return []any{held{0, s.value}}
			}
			return []any{s}
		case leads:
			return []any{s, held{a.fence, a.value}}
		default:
			return []any{s}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
}).ToModel()
