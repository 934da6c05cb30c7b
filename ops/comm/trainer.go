package comm

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// epmapAttr is Fluid's name for the list of servers, one per variable.
const epmapAttr = "epmap"

// attributes reads the attributes of an op with defaults. Shapes and Binding implement it.
type attributes interface {
	Op() *program.Op
	Int(string) int64
	Ints(string) []int64
	Bool(string) bool
	Str(string) string
	Strs(string) []string
}

// A destination says where one variable of a send or recv is kept.
type destination struct {
	server int
	name   string
}

// destinations reads epmap and the names at the servers, one entry per variable. Each destination may occur only once, because a contribution
// counts once.
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

// messages prepares the messages that the op hands to the wire in every step.
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

// wire returns the trainer's side of the wire, or an error if the run has none.
func wire(b *ops.Binding) (ops.Comm, error) {
	if b.Env == nil || b.Env.Comm == nil {
		return nil, needsCluster("no connection to pservers")
	}
	return b.Env.Comm, nil
}

// server returns the pserver that runs the program, or an error if there is none.
func server(b *ops.Binding) (ops.Server, error) {
	if b.Env == nil || b.Env.Server == nil {
		return nil, needsCluster("a program that no pserver runs")
	}
	return b.Env.Server, nil
}

func needsCluster(got string) error {
	return fault.E(fault.InvalidArgument, fault.Got(got), fault.Want("a cluster"), fault.Hint("this op needs a cluster: run it through edl listen"))
}

// control gives the output of control variables its shape.
func control(s *ops.Shapes) { s.Set("Out", tensor.Float32, 0) }

// controlOut declares an output without elements. An op that reads it comes later.
var controlOut = ops.Slot{Name: "Out", Doc: "control variables; an op that reads them comes later", Duplicable: true, Dispensable: true}

// controlIn declares an input that fixes the order of ops. Nobody reads its elements.
var controlIn = ops.Slot{Name: "X", Doc: "control variables of ops that come before", Duplicable: true, Dispensable: true}

// scheme begins every logical address.
const scheme = "pserver:"

// Address returns the logical address of the pserver with an index, such as "pserver:0".
func Address(server int) string { return scheme + strconv.Itoa(server) }

// ParseAddress is the inverse of Address. It accepts no other spelling, so that equal servers have equal addresses.
func ParseAddress(address string) (int, error) {
	number, ok := strings.CutPrefix(address, scheme)
	server, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || server < 0 || Address(int(server)) != address {
		return 0, fault.E(fault.InvalidProgram, fault.Got("the address "+fault.Quote(address)),
			fault.Want("the logical address of a pserver, such as "+Address(0)))
	}
	return int(server), nil
}

func init() {
	ops.Register(ops.Def{
		Type:  "send",
		Class: ops.Dist,
		Doc: "Starts sending each X to its pserver, as this trainer's contribution to the round. X must stay as it is until the send barrier has " +
			"returned.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "what to send", Duplicable: true}},
		Outputs: []ops.Slot{controlOut},
		Attrs: []ops.Attr{
			{Name: epmapAttr, Kind: []string{}, Doc: "logical address of the pserver of each X, such as pserver:0"},
			{Name: "send_varnames", Default: []string{}, Doc: "name of each X at its pserver; empty for its own name"},
			{Name: "rows", Default: false, Doc: "each X holds rows of a table, of which only those in use travel"},
			{Name: "merge", Default: int32(ops.MergeMean),
				Doc: "how the contributions of all trainers merge: 1 mean weighted by rows, 2 sum, 3 the first", Check: checkMerge},
		},
		Infer: func(s *ops.Shapes) error {
			for i, m := range s.Ins("X") {
				if m.Kind != program.LoDTensor {
					return fault.E(fault.Unsupported, fault.Var(s.Op().Inputs["X"][i]), fault.Gotf("X %v", m), fault.Want("a dense tensor"))
				}
			}
			control(s)
			_, err := destinations(s, s.Op().Inputs["X"], "send_varnames")
			return err
		},
		Bind:        bindSend,
		HoldsInputs: true,
	})
}

func bindSend(b *ops.Binding) (ops.Kernel, error) {
	comm, err := wire(b)
	if err != nil {
		return nil, err
	}
	all, err := messages(b, b.Op().Inputs["X"], b.Ins("X"), "send_varnames", ops.Merge(b.Int("merge")))
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Rows = b.Bool("rows")
	}
	return func(ctx context.Context) error {
		for i := range all {
			if err := comm.Send(ctx, all[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func checkMerge(op *program.Op) error {
	if v, ok := op.Int("merge"); ok && !mergeable(v) {
		return errors.New("1 for a mean, 2 for a sum or 3 for the first")
	}
	return nil
}

// mergeable reports whether a number names a way to merge contributions.
func mergeable(merge int64) bool {
	return merge >= int64(ops.MergeMean) && merge <= int64(ops.MergeFirst)
}

func init() {
	ops.Register(ops.Def{
		Type:    "recv",
		Class:   ops.Dist,
		Doc:     "Starts receiving each Out from its pserver. Out is complete when the fetch barrier has returned.",
		Inputs:  []ops.Slot{controlIn},
		Outputs: []ops.Slot{{Name: "Out", Doc: "what to receive", Duplicable: true}},
		Attrs: []ops.Attr{
			{Name: epmapAttr, Kind: []string{}, Doc: "logical address of the pserver of each Out, such as pserver:0"},
			{Name: "recv_varnames", Default: []string{}, Doc: "name of each Out at its pserver; empty for its own name"},
		},
		Infer: func(s *ops.Shapes) error {
			// The outputs keep their zero Meta: their shapes are what the program declares.
			_, err := destinations(s, s.Op().Outputs["Out"], "recv_varnames")
			return err
		},
		Bind: bindRecv,
	})
}

func bindRecv(b *ops.Binding) (ops.Kernel, error) {
	comm, err := wire(b)
	if err != nil {
		return nil, err
	}
	all, err := messages(b, b.Op().Outputs["Out"], b.Outs("Out"), "recv_varnames", ops.MergeNone)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for i := range all {
			if err := comm.Recv(ctx, all[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func init() {
	barrier("send_barrier", "Waits until every send is acknowledged, then declares this trainer's contribution complete at every pserver.",
		func(c ops.Comm) ops.Kernel { return c.SendBarrier })
	barrier("fetch_barrier", "Waits until every recv is complete.",
		func(c ops.Comm) ops.Kernel { return c.FetchBarrier })
}

func barrier(opType, doc string, wait func(ops.Comm) ops.Kernel) {
	ops.Register(ops.Def{
		Type:    opType,
		Class:   ops.Dist,
		Doc:     doc,
		Inputs:  []ops.Slot{controlIn},
		Outputs: []ops.Slot{controlOut},
		Infer: func(s *ops.Shapes) error {
			control(s)
			return nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			comm, err := wire(b)
			if err != nil {
				return nil, err
			}
			return wait(comm), nil
		},
	})
}

// A Traffic is what a trainer program sends to one server in every step, and receives from it: names at the server, in the order of the ops.
type Traffic struct{ Send, Receive []string }

// TrafficOf returns the traffic of a trainer program with each of its servers, by index. servers is how many there are. The error is a *fault.Fault.
func TrafficOf(p *program.Program, servers int) ([]Traffic, error) {
	all := make([]Traffic, servers)
	for _, op := range p.Global().Ops {
		variables, namesAttr := op.Inputs["X"], "send_varnames"
		switch op.Type {
		case "send":
		case "recv":
			variables, namesAttr = op.Outputs["Out"], "recv_varnames"
		default:
			continue
		}
		s, err := ops.Infer(op, func(string) (ops.Meta, bool) { return ops.Meta{Kind: program.LoDTensor}, true })
		if err != nil {
			return nil, err
		}
		to, err := destinations(s, variables, namesAttr)
		if err != nil {
			return nil, ops.At(op, err)
		}
		for _, d := range to {
			if d.server >= servers {
				return nil, ops.At(op, fault.E(fault.InvalidProgram, fault.Gotf("server %d", d.server), fault.Wantf("0 to %d", servers-1)))
			}
			if t := &all[d.server]; op.Type == "send" {
				t.Send = append(t.Send, d.name)
			} else {
				t.Receive = append(t.Receive, d.name)
			}
		}
	}
	return all, nil
}
