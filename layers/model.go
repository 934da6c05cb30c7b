package layers

import (
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
