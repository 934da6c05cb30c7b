package executor

import (
	"context"
	"strings"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A startup gives variables of the state the values that startup programs compute.
type startup struct {
	*settings
	pool *plan.Pool // nil for one worker
}

// complete gives values to the persistable variables that p reads and that have none: those that p.Startup computes. Variables that have a value keep
// it, so a model that was loaded in part is completed and not overwritten. It fails if a variable that the global block reads still has no value.
// Other blocks may read variables that arrive while the program runs.
func (s *startup) complete(ctx context.Context, p *program.Program) error {
	if len(s.missing(p.Blocks)) == 0 {
		return nil
	}
	if p.Startup != nil && len(p.Startup.Global().Ops) > 0 {
		if err := s.run(ctx, p.Startup); err != nil {
			return err
		}
	}
	if missing := s.missing(p.Blocks[:1]); len(missing) > 0 {
		return fault.E(fault.NotFound, fault.Got("no value for the persistable variables "+strings.Join(missing, ", ")),
			fault.Want("a value from the startup program or from a file"),
			fault.Hint("load parameters (--params PATH), or give the startup program that writes these (--startup FILE), in Go as Program.Startup"))
	}
	return nil
}

// run runs a startup program and takes its values for the variables that have none.
func (s *startup) run(ctx context.Context, p *program.Program) error {
	fresh, err := s.initialValues(ctx, p)
	if err != nil {
		return err
	}
	for _, name := range fresh.Names() {
		value, _ := fresh.Find(name)
		if err := s.scope.setMissing(name, value); err != nil {
			return err
		}
	}
	return nil
}

// initialValues runs a startup program in a scope of its own. It was verified with the program that carries it.
func (s *startup) initialValues(ctx context.Context, p *program.Program) (*Scope, error) {
	fresh := NewScope()
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Scope: fresh, Env: s.env, Workers: s.workers, Grain: s.grain, Memory: s.memory()})
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "running the startup program", "variables", len(compiled.Written()))
	return fresh, compiled.Run(ctx, s.pool)
}

// missing lists the persistable tensors that some of blocks reads before it writes them and that have no value, in the
// order of the ops.
func (s *startup) missing(blocks []*program.Block) []string {
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
				if _, ok := s.scope.Find(name); !ok {
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

// check compares the variables of the state with their declarations in the global block of p. A program that has been on this state before, with a
// variable of the same name and other dims, is the usual reason for a difference. The roles of a job bring variables of their own.
func (s *startup) check(p *program.Program) error {
	if s.stage != program.StageLocal {
		return nil
	}
	for _, name := range Persistables(p) {
		value, ok := s.scope.Find(name)
		declared, _ := p.Global().Var(name)
		if !ok || value.DType() == declared.DType && (len(declared.Dims) == 0 || ops.Compatible(value.Dims(), declared.Dims)) {
			continue
		}
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(value.String()+" in the state"),
			fault.Want(ops.MetaOf(declared).String()+", as the program declares"),
			fault.Hint("if another program has a variable of this name, run it on another executor, or name the layers"))
	}
	return nil
}

// valuesOf computes the values that the startup program of p gives to variables.
func (s *startup) valuesOf(ctx context.Context, p *program.Program, names []string) ([]namedTensor, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if err := ops.Verify(p, s.stage); err != nil {
		return nil, err
	}
	initial := NewScope()
	if p.Startup != nil && len(p.Startup.Global().Ops) > 0 {
		var err error
		if initial, err = s.initialValues(ctx, p.Startup); err != nil {
			return nil, err
		}
	}
	var values []namedTensor
	var missing []string
	for _, name := range names {
		value, ok := initial.Find(name)
		if !ok {
			missing = append(missing, name)
			continue
		}
		values = append(values, namedTensor{name, value})
	}
	if len(missing) > 0 {
		return nil, fault.E(fault.NotFound, fault.Got("no initial value for "+strings.Join(missing, ", ")),
			fault.Want("a startup program that writes what is not loaded"))
	}
	return values, nil
}
