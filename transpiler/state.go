package transpiler

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// state is what passes read and write. A comment names the pass that sets a field. Later passes do not change it.
type state struct {
	cfg    Config
	source *program.Program // the user's; never changed
	names  nameSpace

	merge ops.Merge         // classify: how gradients of several trainers become one
	nodes []*node           // classify; duties also by global part and groups
	uses  map[string]*usage // classify

	scalars   map[string]bool // global part: norms and scalars that depend on them
	constants map[string]bool // global part: outputs of dutyConstant
	groups    []*group        // groups, in the order of the first op of each

	tables     map[string]*table      // tables, by parameter
	lookups    map[*node]*table       // tables: ops of trainers that look up in them, and their gradients
	forward    []*forwardState        // contributions
	shards     []*shard               // slice; servers by place
	sent       map[string]program.Var // forms: what trainers send in place of a contribution, by its name at the server
	served     map[string]program.Var // forms: what trainers receive in place of a parameter, by its name at the server
	changed    map[string]program.Var // forms: what trainers receive in place of a parameter of which only some rows change, by its name at the server
	residuals  map[string]program.Var // forms: what trainers keep of a gradient of which they send entries, by its name
	serverVars serverVarTable         // hold: what each server holds
	fetched    []fetched              // fetch: what trainers receive only to report it

	result *Result
}

// global returns the user's global block.
func (s *state) global() *program.Block { return s.source.Global() }

// variable returns a variable of the global block. It exists, because the program has been verified.
func (s *state) variable(name string) *program.Var {
	v, ok := s.global().Find(name)
	if !ok {
		return &program.Var{Name: name, Kind: program.LoDTensor}
	}
	return v
}

// use returns the usage of a variable. It is empty if no op names it.
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

// isShared reports whether every server can have its own copy of a variable, so that ops of several groups may read it.
func (s *state) isShared(name string) bool {
	return s.scalars[name] || s.constants[name] || s.isRate(name) || s.isFixed(name)
}

// isOne reports whether a variable has one element.
func (s *state) isOne(name string) bool { return ops.Product(s.variable(name).Dims) == 1 }

// unsupported makes the error of a program that cannot be spread over machines.
func unsupported(n *node, variable, got, want, hint string) error {
	return fault.E(fault.Unsupported, fault.On(n.op), fault.Var(variable), fault.Got(got), fault.Want(want),
		fault.Hint(hint))
}

// A duty says where an op of the user's global block runs.
type duty int

const (
	dutyTrainer  duty = iota // runs on trainers: forward, backward, readers
	dutyRate                 // learning-rate block: once per round on every server that updates anything
	dutyUpdate               // part of the update of a group of parameters
	dutyScalar               // global part: scalars that depend on norms, on every server
	dutyConstant             // computes a constant number; copied to each block that reads it
)

// A node is one op of the user's global block, with the results of passes about it.
type node struct {
	op     *program.Op
	def    *ops.Def
	at     int // position in the block
	duty   duty
	reads  []string // every variable that the op or its sub-blocks read, each once, sorted
	writes []string

	norm  bool   // its output is the norm of a gradient or parameter that all servers combine
	late  bool   // depends on the global part, so it runs after it
	group *group // of dutyUpdate
}

// newNode looks up an op of the global block. The program has been verified.
func newNode(b *program.Block, at int, op *program.Op) *node {
	def, _ := ops.Lookup(op.Type)
	n := &node{op: op, def: def, at: at}
	reads, writes := b.Touches(op)
	delete(reads, program.Empty)
	delete(writes, program.Empty)
	for name := range writes {
		if v, ok := b.Find(name); ok && v.Kind == program.StepScopes { // nobody but a gradient reads it
			delete(writes, name)
		}
	}
	n.reads, n.writes = slices.Sorted(maps.Keys(reads)), slices.Sorted(maps.Keys(writes))
	return n
}

// A usage lists the nodes that read a variable and the nodes that write it, in order.
type usage struct{ readers, writers []*node }

// by reports whether one of nodes has the duty.
func by(nodes []*node, d duty) bool {
	return slices.ContainsFunc(nodes, func(n *node) bool { return n.duty == d })
}

// usages indexes nodes by variable.
func usages(nodes []*node) map[string]*usage {
	index := map[string]*usage{}
	of := func(name string) *usage {
		u := index[name]
		if u == nil {
			u = &usage{}
			index[name] = u
		}
		return u
	}
	for _, n := range nodes {
		for _, name := range n.reads {
			u := of(name)
			u.readers = append(u.readers, n)
		}
		for _, name := range n.writes {
			u := of(name)
			u.writers = append(u.writers, n)
		}
	}
	return index
}

// A shard is the part of a group that one server runs and keeps: the whole group, or the update of one slice of its parameter.
type shard struct {
	group   *group
	block   int // number of the slice, Whole
	first   int64
	rows    int64             // of the parameter; unused when whole
	striped bool              // they are of the parameter in the order of stripes; never when whole
	names   map[string]string // variable of the program -> name at the server; others keep their name
	bytes   int64             // persistable variables that the group owns
	server  int               // set by place
}

// name returns the name of a variable of the group at the server.
func (u *shard) name(variable string) string {
	if name, ok := u.names[variable]; ok {
		return name
	}
	return variable
}

// at returns the declaration of a variable of the group at the server: with its name there and the rows of the slice.
func (s *state) at(u *shard, variable string) program.Var {
	v := s.variable(variable).Copy(u.name(variable))
	if s.isCut(u, variable) {
		v.Dims[0] = u.rows
	}
	return v
}

// isCut reports whether the shard has only some rows of the variable.
func (s *state) isCut(u *shard, variable string) bool {
	return u.block != Whole && hasRows(s, u.group, variable)
}

// hasRows reports whether a variable has the rows of the first parameter of a group: it has its dims, or what a table that grows has beside its
// rows.
func hasRows(s *state, g *group, variable string) bool {
	return slices.Equal(s.variable(variable).Dims, s.variable(g.params[0]).Dims) || besideRows(g, g.params[0], variable)
}

// bytesOf returns the memory of a variable of known dims.
func bytesOf(v *program.Var) int64 {
	return max(0, ops.Product(v.Dims)) * int64(v.DType.Size())
}
