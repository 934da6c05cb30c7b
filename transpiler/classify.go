package transpiler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// gradientChecks are ops that look at all gradients of a step.
var gradientChecks = []string{"check_finite_and_unscale", "amp_check_finite_and_scale", "update_loss_scaling"}

// classify gives every op of the global block a duty by its role. Ops of the learning-rate schedule and of updates go to servers. All others stay
// on trainers.
func classify(s *state) error {
	for at, op := range s.global().Ops {
		n := newNode(s.global(), at, op)
		switch role := op.Role(); {
		case role.Has(program.RoleLRSched):
			n.duty = dutyRate
		case role.Has(program.RoleOptimize):
			n.duty = dutyUpdate
		}
		if n.duty == dutyTrainer && slices.Contains(gradientChecks, op.Type) {
			return unsupported(n, "", "a check of gradients in the backward pass, where each trainer has gradients of its own rows alone", "a check with the role of an update, on the gradients of all trainers",
				"build it with op_role Optimize, as mixed_precision.decorate does")
		}
		if n.duty == dutyUpdate && len(op.SubBlocks()) > 0 && !isConditionalUpdate(op) {
			return unsupported(n, "", "an update op with a sub-block", "update ops without control flow but conditional_block", "")
		}
		s.nodes = append(s.nodes, n)
	}
	if err := checkBlocks(s); err != nil {
		return err
	}
	s.uses = usages(s.nodes)
	if slices.ContainsFunc(s.nodes, func(n *node) bool { return n.duty == dutyUpdate }) {
		var err error
		switch s.merge, err = ops.GradientMerge(s.source); {
		case err != nil && !dividesBatches(s) && fault.KindOf(err) == fault.Unsupported:
			s.merge = ops.MergeMean // of one trainer, whose batches nobody divides: as it is
		case err != nil:
			return hintWhole(s, err)
		}
	}
	if dividesBatches(s) {
		if _, err := ops.WeightOf(s.source, s.cfg.Fetch); err != nil {
			return hintWhole(s, err)
		}
	}
	return checkKinds(s)
}

// checkBlocks checks that only blocks of the learning-rate schedule and of conditional updates have update ops.
func checkBlocks(s *state) error {
	served := map[program.BlockIndex]bool{}
	var add func(op *program.Op)
	add = func(op *program.Op) {
		for _, index := range op.SubBlocks() {
			b, err := s.source.Block(index)
			if err != nil || served[index] {
				continue
			}
			served[index] = true
			for _, inner := range b.Ops {
				add(inner)
			}
		}
	}
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			add(n.op)
		}
	}
	for _, b := range s.source.Blocks[1:] {
		for at, op := range b.Ops {
			if role := op.Role(); (role.Has(program.RoleOptimize) || role.Has(program.RoleLRSched)) && !served[program.BlockIndex(b.Index)] {
				return unsupported(newNode(b, at, op), "", "an update op in a sub-block", "update ops in the global block", "")
			}
		}
	}
	return nil
}

// checkKinds checks that updates read and write tensors, or sparse gradients that can travel.
func checkKinds(s *state) error {
	for _, n := range s.nodes {
		if n.duty == dutyTrainer {
			continue
		}
		for _, names := range [][]string{n.reads, n.writes} {
			for _, name := range names {
				v, hint := s.variable(name), ""
				if v.Kind == program.SelectedRows {
					hint = checkRows(v)
				}
				if hint != "" || v.Kind != program.LoDTensor && v.Kind != program.SelectedRows {
					return unsupported(n, name, ops.MetaOf(v).String(), "a tensor in an update", hint)
				}
			}
		}
	}
	return nil
}

// A forwardState is a persistable variable that the forward pass updates, such as a moving mean. Each trainer sends its value, as it sends
// gradients, and receives the merged value.
type forwardState struct {
	name   string
	merge  ops.Merge
	server int // set by place
}

// findContributions finds the forward state. It checks that updates take only gradients from trainers, that trainers take only parameters from
// updates, and that one round per step can keep the order of both.
func findContributions(s *state) error {
	findForwardState(s)
	exchange := exchangeAt(s)
	for _, n := range s.nodes {
		var err error
		switch n.duty {
		case dutyTrainer:
			err = checkTrainerOp(s, n, exchange)
		case dutyRate:
			err = checkRateOp(s, n)
		case dutyUpdate:
			err = checkUpdateOp(s, n)
		}
		if err != nil {
			return err
		}
	}
	return findTrainerState(s)
}

func findForwardState(s *state) {
	added := ops.AddedState(s.source, dividesBatches(s))
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			continue
		}
		for _, slot := range slices.Sorted(maps.Keys(n.def.State)) {
			for _, name := range n.op.Outputs[slot] {
				if name == program.Empty || !s.variable(name).Persistable || forwardStateOf(s, name) != nil {
					continue
				}
				s.forward = append(s.forward, &forwardState{name: name, merge: n.def.State[slot]})
			}
		}
		for _, name := range n.writes {
			if added[name] && forwardStateOf(s, name) == nil {
				s.forward = append(s.forward, &forwardState{name: name, merge: ops.MergeSum})
			}
		}
	}
}

// forwardStateOf returns the forward state with a name, nil if there is none.
func forwardStateOf(s *state, name string) *forwardState {
	for _, f := range s.forward {
		if f.name == name {
			return f
		}
	}
	return nil
}

// checkTrainerOp checks the variables that a trainer op reads. exchange is the position of the op after which new parameters arrive.
func checkTrainerOp(s *state, n *node, exchange int) error {
	for _, name := range n.reads {
		for _, w := range s.use(name).writers {
			switch {
			case w.duty == dutyTrainer || w.duty == dutyConstant:
			case !s.isParameter(name) && w.at > n.at:
			case !s.isParameter(name) || w.duty == dutyRate:
				return unsupported(n, name, "a variable that the update computes", "nothing but parameters from the update",
					"fetch it by name instead, or give its ops the role of an update")
			case w.at < n.at && n.at <= exchange:
				return unsupported(n, name, "a parameter after its update and before that of another",
					"all updates after the ops that they depend on", "one step of a distributed job has one round")
			}
		}
	}
	return nil
}

func checkRateOp(s *state, n *node) error {
	for _, name := range n.reads {
		use := s.use(name)
		switch {
		case by(use.writers, dutyTrainer) || len(use.writers) == 0 && !s.isFixed(name):
			return unsupported(n, name, "a learning-rate schedule that reads a value of the forward pass", "a schedule of the step alone", "")
		case by(use.writers, dutyUpdate) || by(use.writers, dutyScalar):
			return unsupported(n, name, "a learning-rate schedule that reads a result of the update", "a schedule of the step alone", "")
		}
	}
	for _, name := range n.writes {
		if by(s.use(name).writers, dutyUpdate) || by(s.use(name).writers, dutyTrainer) {
			return unsupported(n, name, "a variable that the learning-rate schedule and another part of the program write", "one writer", "")
		}
	}
	return nil
}

func checkUpdateOp(s *state, n *node) error {
	for _, name := range n.writes {
		if s.variable(name).Persistable && by(s.use(name).writers, dutyTrainer) {
			return unsupported(n, name, "a persistable variable that both the forward pass and the update write", "one writer on one side", "")
		}
	}
	for _, name := range n.reads {
		if use := s.use(name); len(use.writers) == 0 && !s.isFixed(name) {
			return unsupported(n, name, "an update that reads a fed variable", "gradients and persistable variables", "")
		}
		if !slices.Contains(n.group.contributions, name) {
			continue
		}
		if err := checkContribution(s, n, name); err != nil {
			return err
		}
	}
	return nil
}

// checkContribution checks a variable that trainers compute and updates read: it must be the gradient of a parameter, because only gradients have a
// rule to merge.
func checkContribution(s *state, n *node, name string) error {
	v := s.variable(name)
	if v.Persistable {
		return unsupported(n, name, "a persistable variable that the forward pass writes and the update reads", "one writer on one side", "")
	}
	if p := lastProducer(s, name); p.at > n.at {
		return unsupported(p, name, "a gradient that is written again after its update", "updates after the backward pass",
			"one step of a distributed job has one round")
	}
	if slices.Contains(v.Dims, program.Unknown) {
		return unsupported(n, name, "an update that reads a value of unknown extents "+fmt.Sprint(v.Dims), "gradients of parameters", "")
	}
	param := n.group.paramOf[name]
	if param == "" || !slices.Equal(s.variable(param).Dims, v.Dims) {
		return unsupported(n, name, fmt.Sprintf("an update that reads a forward value of dims %v", v.Dims),
			"gradients of the parameters that it updates", "")
	}
	return nil
}
