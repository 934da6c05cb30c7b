package trainer

import (
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// kept are parameters that a sync trainer has from one generation to the next. When a generation ends, its open round is often given up, and the next generation
// begins with that round. Then the parameters are the same bits, whatever the members and the placement are, and what the trainer has need not travel again.
//
// Kept are the variables that arrive from servers and that nothing else in the program writes. State that the forward pass writes, such as moving statistics, is
// received again. So is all in jobs with backup trainers, which may begin later than they are told, and of trainers that merge by host.
type kept struct {
	round   id.Round // the first that is not in the values
	history uint64   // that they belong to; see rpc.JoinResponse
	values  map[string]*tensor.Tensor
}

// keep takes what the trainer has of the parameters when a generation has ended. Nothing of it is under way.
func (g *generationRun) keep() *kept {
	c := g.comm
	if !c.Sync || !g.whole || c.torn.Load() || c.verdicts.on || len(g.in.Group) > 0 {
		return nil
	}
	k := &kept{round: g.open, history: g.in.History, values: map[string]*tensor.Tensor{}}
	for name := range arrives(g.cfg.Program) {
		if t, ok := g.local.Scope().Find(name); ok {
			k.values[name] = t
		}
	}
	return k
}

// give gives an executor what was kept, if it is of the round that a generation begins with, and returns the program that starts up with the rest.
func (k *kept) give(in *rpc.JoinResponse, scope *executor.Scope, p *program.Program) (*program.Program, error) {
	if k == nil || k.round != id.Round(in.Round) || k.history != in.History || len(in.Group) > 0 || p.Startup == nil {
		return p, nil
	}
	have := map[string]bool{}
	for name := range arrives(p) {
		v, _ := p.Global().Var(name)
		t, ok := k.values[name]
		if !ok || t.DType() != v.DType || !slices.Equal(t.Dims(), v.Dims) {
			continue
		}
		if err := scope.Set(name, t); err != nil {
			return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		have[name] = true
	}
	return &program.Program{Blocks: p.Blocks, Version: p.Version, Startup: withoutReceived(p.Startup, have)}, nil
}

// arrives lists the variables of a trainer program that startup and step receive from servers, and that nothing else writes.
func arrives(p *program.Program) map[string]bool {
	names := map[string]bool{}
	if p.Startup == nil {
		return names
	}
	received, _ := receivedBy(p.Startup)
	again, other := receivedBy(p)
	for name := range received {
		if v, ok := p.Global().Var(name); ok && v.Persistable && again[name] && !other[name] {
			names[name] = true
		}
	}
	return names
}

// receivedBy lists what a program receives, whole or joined from parts, and what anything else in it writes.
func receivedBy(p *program.Program) (received, other map[string]bool) {
	received, other = map[string]bool{}, map[string]bool{}
	for _, op := range p.Global().Ops {
		_, writes := p.Global().Touches(op)
		brings := false
		switch op.Type {
		case "recv":
			brings = true
		case "concat", "stripe_rows", "scatter_rows":
			from := op.Inputs["X"]
			if op.Type == "scatter_rows" {
				from = op.Inputs["Rows"]
			}
			brings = len(from) > 0 && !slices.ContainsFunc(from, func(name string) bool { return !received[name] })
		}
		for name := range writes {
			if brings {
				received[name] = true
			} else {
				other[name] = true
			}
		}
	}
	return received, other
}

// withoutReceived is a startup program without what brings variables that are here.
func withoutReceived(startup *program.Program, have map[string]bool) *program.Program {
	p := startup.Clone()
	b := p.Global()
	needed, here := map[string]bool{}, map[string]bool{}
	ops := make([]*program.Op, 0, len(b.Ops))
	for _, op := range slices.Backward(b.Ops) {
		reads, writes := b.Touches(op)
		wanted := op.Type == "fetch_barrier"
		for name := range writes {
			v, ok := b.Find(name)
			wanted = wanted || needed[name] || ok && v.Persistable && !have[name]
		}
		if !wanted {
			for name := range writes {
				here[name] = true
			}
			continue
		}
		ops = append(ops, op)
		if op.Type != "fetch_barrier" {
			for name := range reads {
				needed[name] = true
			}
		}
	}
	slices.Reverse(ops)
	b.Ops = slices.DeleteFunc(ops, func(op *program.Op) bool {
		if op.Type != "fetch_barrier" {
			return false
		}
		for slot, names := range op.Inputs {
			op.Inputs[slot] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return here[name] })
		}
		return len(op.InputNames()) == 0
	})
	return p
}
