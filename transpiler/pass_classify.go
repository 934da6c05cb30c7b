package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// classify gives every op of the global block a duty by its role: ops of the learning-rate schedule and of updates go to servers,
// everything else stays on trainers.
func classify(s *state) error {
	for at, op := range s.global().Ops {
		n := newNode(s.global(), at, op)
		switch role := op.Role(); {
		case role.Has(program.RoleLRSched):
			n.duty = dutyRate
		case role.Has(program.RoleOptimize):
			n.duty = dutyUpdate
		}
		if n.duty != dutyTrainer && len(op.SubBlocks()) > 0 {
			return unsupported(n, "", "an update op with a sub-block", "update ops without control flow", "")
		}
		s.nodes = append(s.nodes, n)
	}
	for _, b := range s.source.Blocks[1:] {
		for at, op := range b.Ops {
			if role := op.Role(); role.Has(program.RoleOptimize) || role.Has(program.RoleLRSched) {
				return unsupported(newNode(b, at, op), "", "an update op in a sub-block", "update ops in the global block", "")
			}
		}
	}
	s.uses = usages(s.nodes)
	if slices.ContainsFunc(s.nodes, func(n *node) bool { return n.duty == dutyUpdate }) {
		var err error
		if s.merge, err = ops.GradientMerge(s.source); err != nil {
			return err
		}
	}
	return checkKinds(s)
}

// checkKinds checks that updates read and write dense tensors.
func checkKinds(s *state) error {
	for _, n := range s.nodes {
		if n.duty == dutyTrainer {
			continue
		}
		for _, names := range [][]string{n.reads, n.writes} {
			for _, name := range names {
				v, hint := s.variable(name), ""
				if v.Kind == program.SelectedRows {
					hint = "a lookup with is_sparse is trained on one machine only: drop layers.Sparse"
				}
				if v.Kind != program.LoDTensor {
					return unsupported(n, name, ops.MetaOf(v).String(), "a dense tensor in an update", hint)
				}
			}
		}
	}
	return nil
}
