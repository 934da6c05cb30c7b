package layers

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Model is a program under construction.
type Model struct {
	main     *program.Program
	seed     int64
	mistakes fault.List
	params   map[string]ParamAttr // settings of the parameters that layers created
	role     program.Role         // of the ops that are appended now
	roleVars []string             // pairs of parameter and gradient that they belong to
}

// NewModel returns a model without variables or ops, whose seed is 0.
func NewModel() *Model {
	return &Model{main: program.New(), params: map[string]ParamAttr{}}
}

// Seed sets the seed of every random op that is built afterwards: initial values and dropout. Random ops are keyed
// by the seed and the name of what they write, so one seed serves all of them. It returns m.
func (m *Model) Seed(seed int64) *Model {
	m.seed = seed
	return m
}

// Program returns the finished program with its startup program, or every mistake that was made, each with the line of
// user code that made it. The error is a fault.List. A program that is returned has passed ops.Verify.
func (m *Model) Program() (*program.Program, error) {
	if err := m.mistakes.Err(); err != nil {
		return nil, err
	}
	if err := ops.Verify(m.main, program.StageLocal); err != nil {
		return nil, err
	}
	return m.main, nil
}

// Building returns the program as it stands, for passes that append to it, such as the backward pass. It may be
// incomplete or faulty; users want Program.
func (m *Model) Building() *program.Program { return m.main }

// Report notes a mistake. A fault without a line gets the line of user code that is being executed. The same mistake for
// several parameters, as a wrong update rule makes it, is noted once.
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

// As runs build, and gives every op that it appends a role and the pairs of parameter and gradient that the op belongs to
// (see program.AttrRoleVar), so that a transpiler knows what to move. Optimizers build updates through it.
func (m *Model) As(role program.Role, roleVars []string, build func()) {
	outerRole, outerVars := m.role, m.roleVars
	m.role, m.roleVars = role, roleVars
	defer func() { m.role, m.roleVars = outerRole, outerVars }()
	build()
}

// State declares a persistable variable that is no parameter, such as the moment of an optimizer, and gives it an
// initial value in the startup program. The name must be free.
func (m *Model) State(name string, dtype tensor.DType, dims []int64, init Initializer) Variable {
	return m.persistable(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: dims, Persistable: true, StopGradient: true}, init)
}

// persistable declares v in the program and in its startup program, and appends the op that initializes it there.
func (m *Model) persistable(v program.Var, init Initializer) Variable {
	added, err := m.main.Global().AddVar(v)
	if err != nil {
		m.Report(fault.E(fault.InvalidArgument, fault.Var(v.Name), fault.Got("a name that is taken"), fault.Want("a free name")))
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

// UniqueName returns the first of prefix_0, prefix_1, ... that no variable has and that was not returned before.
func (m *Model) UniqueName(prefix string) string {
	for {
		name := m.main.UniqueName(prefix)
		if _, taken := m.main.Global().Var(name); !taken {
			return name
		}
	}
}

func (m *Model) poison() Variable { return Variable{model: m} }

// userLine returns the line of user code that called into this package or into package optimizer.
func userLine() string {
	return program.CallerLine("github.com/edl-go/edl/layers", "github.com/edl-go/edl/optimizer")
}

// A Variable is a value that a program will compute. It is poisoned when the layer that should have built it was used wrongly: every
// layer on a poisoned variable returns a poisoned variable and reports nothing. The zero Variable is poisoned and belongs to no model.
type Variable struct {
	model *Model
	v     *program.Var
}

// OK reports whether the variable exists.
func (v Variable) OK() bool { return v.v != nil }

// Model returns the model that the variable belongs to, also for a poisoned one; nil for the zero Variable.
func (v Variable) Model() *Model { return v.model }

// Name returns the variable's name in the program, by which it is fed and fetched; "" when poisoned.
func (v Variable) Name() string {
	if v.v == nil {
		return ""
	}
	return v.v.Name
}

// Dims returns the extents, program.Unknown where the program leaves one open, such as the batch; nil when poisoned.
func (v Variable) Dims() []int64 {
	if v.v == nil {
		return nil
	}
	return slices.Clone(v.v.Dims)
}

// DType returns the element type; that of a poisoned variable is meaningless.
func (v Variable) DType() tensor.DType {
	if v.v == nil {
		return tensor.Float32
	}
	return v.v.DType
}

// IsSparse reports whether the variable holds some rows of a table, as the gradient of a table with Sparse does.
func (v Variable) IsSparse() bool { return v.v != nil && v.v.Kind == program.SelectedRows }

// StopGradient keeps gradients from flowing through the variable, and returns it. A parameter that stops its gradient is not trained.
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

// resolveAxis returns axis i of a variable, counted from the end when negative; it reports a mistake when there is none.
func (l *layer) resolveAxis(x Variable, i int) (int, bool) {
	rank := x.rank()
	if i < -rank || i >= rank {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("axis %d", i), fault.Wantf("an axis of %v", x)))
		return 0, false
	}
	return (i + rank) % rank, true
}
