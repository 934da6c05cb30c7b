package comm

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// epmapAttr is Fluid's name for the list of servers, one per variable.
const epmapAttr = "epmap"

// attributes are those of an op with their defaults, as Shapes and Binding give them.
type attributes interface {
	Op() *program.Op
	Int(string) int64
	Ints(string) []int64
	Bool(string) bool
	Str(string) string
	Strs(string) []string
}

// A destination is where one variable of a send or recv lives.
type destination struct {
	server int
	name   string
}

// destinations reads epmap and the list of names at the servers, one per variable. No variable may meet another at its
// destination: a contribution counts once.
func destinations(a attributes, variables []string, namesAttr string) ([]destination, error) {
	epmap, names := a.Strs(epmapAttr), a.Strs(namesAttr)
	if len(names) == 0 {
		names = variables
	}
	if len(epmap) != len(variables) || len(names) != len(variables) {
		return nil, fault.E(fault.InvalidProgram, fault.Gotf("%d entries in %s and %d in %s", len(epmap), epmapAttr, len(names), namesAttr),
			fault.Wantf("%d, one per variable", len(variables)))
	}
	all := make([]destination, len(variables))
	taken := map[destination]bool{}
	for i, variable := range variables {
		server, err := ParseAddress(epmap[i])
		if err != nil {
			return nil, err
		}
		if variable == program.Empty || names[i] == program.Empty || names[i] == "" {
			return nil, fault.E(fault.InvalidProgram, fault.Gotf("no name for variable %d", i), fault.Want("a variable and its name at the server"))
		}
		all[i] = destination{server, names[i]}
		if taken[all[i]] {
			return nil, fault.E(fault.InvalidProgram, fault.Var(variable), fault.Gotf("%s at %s twice in one op", fault.Quote(names[i]), epmap[i]),
				fault.Want("one variable of a name at each server"))
		}
		taken[all[i]] = true
	}
	return all, nil
}

// messages prepares what the wire is handed in every step.
func messages(b *ops.Binding, variables []string, tensors []*tensor.Tensor, namesAttr string, merge ops.Merge) ([]ops.Message, error) {
	to, err := destinations(b, variables, namesAttr)
	if err != nil {
		return nil, err
	}
	all := make([]ops.Message, len(to))
	for i, d := range to {
		if i >= len(tensors) || tensors[i] == nil {
			return nil, fault.E(fault.InvalidProgram, fault.Var(variables[i]), fault.Got("a variable without a value"), fault.Want("a tensor"))
		}
		all[i] = ops.Message{Name: d.name, Server: d.server, Merge: merge, Value: tensors[i]}
	}
	return all, nil
}

// wire returns the trainer's side of the wire.
func wire(b *ops.Binding) (ops.Comm, error) {
	if b.Env == nil || b.Env.Comm == nil {
		return nil, needsCluster("no connection to pservers")
	}
	return b.Env.Comm, nil
}

// server returns the pserver that the program runs in.
func server(b *ops.Binding) (ops.Server, error) {
	if b.Env == nil || b.Env.Server == nil {
		return nil, needsCluster("no pserver around the program")
	}
	return b.Env.Server, nil
}

func needsCluster(got string) error {
	return fault.E(fault.InvalidArgument, fault.Got(got), fault.Want("a cluster"), fault.Hint("this op needs a cluster: run it through edl listen"))
}

// control gives an output of control variables its shape: no elements.
func control(s *ops.Shapes) { s.Set("Out", tensor.Float32, 0) }

// controlOut declares the output that only fixes the order of ops.
var controlOut = ops.Slot{Name: "Out", Doc: "control variables, without elements: what reads them comes later", Duplicable: true, Dispensable: true}

// controlIn declares the input that only fixes the order of ops.
var controlIn = ops.Slot{Name: "X", Doc: "what must have happened before; its elements are not read", Duplicable: true, Dispensable: true}
