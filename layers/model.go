package layers

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Model is a program under construction.
type Model struct {
	main     *program.Program
	inner    *program.Block // that a function of control flow fills; nil for the global block
	seed     int64
	mistakes fault.List
	params   map[string]ParamAttr // settings of the parameters that layers created
	role     program.Role         // of the next ops
	roleVars []string             // parameter and gradient, pair after pair, that the next ops belong to
}

// NewModel returns a model without variables or ops. Its seed is 0.
func NewModel() *Model {
	return &Model{main: program.New(), params: map[string]ParamAttr{}}
}

// Seed sets the seed of every random op that is built afterwards: initial values and dropout. It returns m. One seed serves all ops, because each
// also uses the name of the variable that it writes.
func (m *Model) Seed(seed int64) *Model {
	m.seed = seed
	return m
}

// SeedOf returns a seed that follows from the seed of the model and from names, such as the one of a parameter that chance rounds.
func (m *Model) SeedOf(names ...string) int64 { return m.seed ^ int64(kernel.StreamOf(names...)) }

// Program returns the finished program with its startup program. It has passed ops.Verify, and reader.Check if it reads its own data. If mistakes were made, Program returns all of them as a
// fault.List, each with its line of user code.
func (m *Model) Program() (*program.Program, error) {
	if err := m.mistakes.Err(); err != nil {
		return nil, err
	}
	if err := ops.Verify(m.main, program.StageLocal); err != nil {
		return nil, err
	}
	if f := reader.Check(m.main.Global()); f != nil {
		return nil, fault.List{f}
	}
	return m.main, nil
}

// Building returns the unfinished program, for passes that append to it, such as the backward pass. It may be wrong or incomplete. Users call
// Program.
func (m *Model) Building() *program.Program { return m.main }

// Report notes a mistake. A fault without a line gets the present line of user code. Report notes an equal mistake only once, as a wrong update
// rule makes one for each parameter.
func (m *Model) Report(f *fault.Fault) {
	if f.Line == "" {
		f.Line = userLine()
	}
	text := f.Error()
	if !slices.ContainsFunc(m.mistakes, func(noted *fault.Fault) bool { return noted.Error() == text }) {
		m.mistakes.Add(f)
	}
}

// Variable returns a variable of the program by name.
func (m *Model) Variable(name string) (Variable, bool) {
	v, ok := m.main.Global().Var(name)
	return Variable{m, v}, ok
}

// Parameters returns the trainable parameters in the order of their creation.
func (m *Model) Parameters() []Variable {
	var all []Variable
	for _, v := range m.main.Global().Vars() {
		if v.IsParameter && !v.StopGradient {
			all = append(all, Variable{m, v})
		}
	}
	return all
}

// Settings returns what the user set for a parameter. Its LearningRate is never 0.
func (m *Model) Settings(parameter string) ParamAttr {
	attr := m.params[parameter]
	attr.Name = parameter
	if attr.LearningRate == 0 {
		attr.LearningRate = 1
	}
	return attr
}

// As runs build. Every op that build appends gets the role and the pairs of parameter and gradient (see program.AttrRoleVar). The transpiler uses
// both to place ops. Optimizers build updates with it.
func (m *Model) As(role program.Role, roleVars []string, build func()) {
	outerRole, outerVars := m.role, m.roleVars
	m.role, m.roleVars = role, roleVars
	defer func() { m.role, m.roleVars = outerRole, outerVars }()
	build()
}

// State declares a persistable variable that is no parameter, such as a moment of an optimizer, with an initial value in the startup program. The
// name must be free.
func (m *Model) State(name string, dtype tensor.DType, dims []int64, init Initializer) Variable {
	return m.persistable(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: dims, Persistable: true, StopGradient: true}, init)
}

// persistable declares v in the program and in its startup program, and appends the op that initializes it there.
func (m *Model) persistable(v program.Var, init Initializer) Variable {
	added, err := m.main.Global().AddVar(v)
	if err != nil {
		m.Report(taken(v.Name))
		return m.poison()
	}
	op := init(Target{DType: v.DType, Dims: v.Dims, Seed: m.seed})
	if op == nil {
		m.Report(fault.E(fault.InvalidArgument, fault.Var(v.Name), fault.Got("an initializer that returned no op"),
			fault.Want("an op with the output Out")))
		return m.poison()
	}
	op.Outputs = map[string][]string{"Out": {v.Name}}
	startup := m.main.Startup.Global()
	if _, err := startup.AddVar(v); err != nil {
		m.Report(fault.E(fault.InvalidArgument, fault.Var(v.Name), fault.Cause(err)))
		return m.poison()
	}
	built := false
	m.As(program.RoleForward, nil, func() { built = m.emit(startup, op) })
	if !built {
		return m.poison()
	}
	return Variable{m, added}
}

// UniqueName returns the first of prefix_0, prefix_1, ... that is no variable and that it has not returned before.
func (m *Model) UniqueName(prefix string) string {
	for {
		name := m.main.UniqueName(prefix)
		if _, taken := m.current().Find(name); !taken {
			return name
		}
	}
}

func (m *Model) poison() Variable { return Variable{model: m} }

// userLine returns the line of user code that called into this package or into package optimizer.
func userLine() string {
	return program.CallerLine("github.com/edl-go/edl/layers", "github.com/edl-go/edl/optimizer")
}

// A Variable is a value that a program will compute. It is poisoned if the call that should have built it was wrong. A layer on a poisoned variable
// returns a poisoned variable and reports nothing. The zero Variable is poisoned and belongs to no model.
type Variable struct {
	model *Model
	v     *program.Var
}

// OK reports whether the variable exists.
func (v Variable) OK() bool { return v.v != nil }

// Model returns the model of the variable, even of a poisoned one. It is nil for the zero Variable.
func (v Variable) Model() *Model { return v.model }

// Name returns the name for feeds and fetches, "" for a poisoned variable.
func (v Variable) Name() string {
	if v.v == nil {
		return ""
	}
	return v.v.Name
}

// Names returns the names of variables in their order, as executors take them: e.Run(ctx, p, feed, layers.Names(loss, accuracy)...).
func Names(variables ...Variable) []string {
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.Name()
	}
	return names
}

// Dims returns the extents. An open extent, such as the batch, is program.Unknown. The dims of a poisoned variable are nil.
func (v Variable) Dims() []int64 {
	if v.v == nil {
		return nil
	}
	return slices.Clone(v.v.Dims)
}

// LoDLevel returns how many levels of sequences divide the rows, 0 for none.
func (v Variable) LoDLevel() int {
	if v.v == nil {
		return 0
	}
	return v.v.LoDLevel
}

// DType returns the element type. The type of a poisoned variable means nothing.
func (v Variable) DType() tensor.DType {
	if v.v == nil {
		return tensor.Float32
	}
	return v.v.DType
}

// IsSparse reports whether the variable holds some rows of a table, as the gradient of a table with Sparse does.
func (v Variable) IsSparse() bool { return v.v != nil && v.v.Kind == program.SelectedRows }

// StopGradient stops gradients at the variable, and returns the variable. A parameter that stops its gradient is not trained.
func (v Variable) StopGradient() Variable {
	if v.v != nil {
		v.v.StopGradient = true
	}
	return v
}

// String names the variable with its type, such as "x float32[-1 13]".
func (v Variable) String() string {
	if v.v == nil {
		return "poisoned variable"
	}
	return fmt.Sprintf("%s %v", v.v.Name, ops.MetaOf(v.v))
}

// rank returns the number of axes.
func (v Variable) rank() int { return len(v.v.Dims) }

// resolveAxis returns axis i of a variable as a number from 0. It reports a mistake if there is no such axis.
func (l *layer) resolveAxis(x Variable, i int) (int, bool) {
	rank := x.rank()
	if i < -rank || i >= rank {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("axis %d", i), fault.Wantf("an axis of %v", x)))
		return 0, false
	}
	return (i + rank) % rank, true
}
