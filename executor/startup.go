package executor

import (
	"context"
	"strings"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// startup gives the persistable variables that p reads and that have no value yet the values that p.Startup computes. Variables that have
// a value keep it, so a model that was loaded in part is completed and not overwritten. Sub-blocks may read what arrives only while the
// program runs, so only the global block must find everything.
func (l *Local) startup(ctx context.Context, p *program.Program) error {
	if len(l.missing(p.Blocks)) == 0 {
		return nil
	}
	if p.Startup != nil && len(p.Startup.Global().Ops) > 0 {
		if err := l.runStartup(ctx, p.Startup); err != nil {
			return err
		}
	}
	if missing := l.missing(p.Blocks[:1]); len(missing) > 0 {
		return fault.E(fault.NotFound, fault.Got("no value for the persistable variables "+strings.Join(missing, ", ")),
			fault.Want("a value from the startup program or from a file"),
			fault.Hint("load parameters, or run a program whose startup program writes these"))
	}
	return nil
}

// runStartup runs a startup program in a scope of its own and takes over what is new.
func (l *Local) runStartup(ctx context.Context, startup *program.Program) error {
	fresh := NewScope() // the startup program was verified with the program that carries it
	compiled, err := plan.Compile(plan.Request{Block: startup.Global(), Scope: fresh, Env: l.env, Workers: l.workers, Grain: l.grain})
	if err != nil {
		return err
	}
	l.log.InfoContext(ctx, "running the startup program", "variables", len(compiled.Written()))
	if err := compiled.Run(ctx, l.pool); err != nil {
		return err
	}
	for _, name := range compiled.Written() {
		if _, ok := l.scope.Find(name); ok {
			continue
		}
		value, _ := fresh.Find(name)
		if err := l.scope.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// missing lists the persistable tensors that some of blocks reads before it writes them and that have no value, in the
// order of the ops.
func (l *Local) missing(blocks []*program.Block) []string {
	var names []string
	seen := map[string]bool{}
	for _, b := range blocks {
		for _, op := range b.Ops {
			for _, name := range op.InputNames() {
				v, ok := b.Find(name)
				if !ok || !v.Persistable || v.Kind != program.LoDTensor || seen[name] {
					continue
				}
				seen[name] = true
				if _, ok := l.scope.Find(name); !ok {
					names = append(names, name)
				}
			}
			for _, name := range op.OutputNames() {
				seen[name] = true
			}
		}
	}
	return names
}
