package transpiler

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

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
