package transpiler

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// state is what passes read and write. Each field is set by the pass that its comment names and not changed after.
type state struct {
	cfg    Config
	source *program.Program // the user's; never changed
	names  nameSpace

	merge ops.Merge         // classify: how gradients of several trainers become one
	nodes []*node           // classify; duties also by global part and groups
	uses  map[string]*usage // classify

	scalars   map[string]bool // global part: norms and what follows from them
	constants map[string]bool // global part: outputs of dutyConstant
	groups    []*group        // groups, in the order of the first op of each

	forward []*forwardState // contributions
	units   []*unit         // slice; servers by place
	held    heldTable       // hold: what each server holds
	fetched []fetched       // fetch: what trainers receive only to report it

	result *Result
}

// global returns the user's global block.
func (s *state) global() *program.Block { return s.source.Global() }

// variable returns a variable of the global block; the program has been verified, so there is one.
func (s *state) variable(name string) *program.Var {
	v, ok := s.global().Find(name)
	if !ok {
		return &program.Var{Name: name, Kind: program.LoDTensor}
	}
	return v
}

// use returns the usage of a variable, empty when no op names it.
func (s *state) use(name string) *usage {
	if u := s.uses[name]; u != nil {
		return u
	}
	return &usage{}
}

// updates returns the nodes of dutyUpdate, in order.
func (s *state) updates() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool { return n.duty != dutyUpdate })
}

// isRate reports whether the learning-rate block writes the variable.
func (s *state) isRate(name string) bool { return by(s.use(name).writers, dutyRate) }

// isFixed reports whether the variable is persistable and no op writes it, such as a constant learning rate.
func (s *state) isFixed(name string) bool {
	return s.variable(name).Persistable && len(s.use(name).writers) == 0
}

// isShared reports whether ops of several groups may read the variable without belonging together: every server that needs
// it has its own copy.
func (s *state) isShared(name string) bool {
	return s.scalars[name] || s.constants[name] || s.isRate(name) || s.isFixed(name)
}

// isOne reports whether a variable has one element.
func (s *state) isOne(name string) bool { return ops.Product(s.variable(name).Dims) == 1 }

// unsupported is the fault of a program that cannot be spread over machines.
func unsupported(n *node, variable, got, want, hint string) error {
	return fault.E(fault.Unsupported, fault.On(n.op), fault.Var(variable), fault.Got(got), fault.Want(want),
		fault.Hint(hint))
}
