package reference

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// split is a program in two halves.
type split struct {
	program    *program.Program
	forward    *program.Program  // forward and backward ops, fed with rows of the batch
	update     *program.Program  // learning rate and optimizer ops, fed with what crosses
	crosses    []string          // what the update reads of the forward half, sorted
	parameters []string          // persistable variables that the update writes and trainers have, sorted
	state      []state           // persistable variables that the forward half writes
	updated    map[string]bool   // variables that the update writes
	byRows     map[string]string // sparse gradients that cross: the variable in which their rows do
	merge      ops.Merge         // of gradients and of fetched numbers: the mean for a program that does not train
}

// trains reports whether the program has update ops.
func (s *split) trains() bool { return executor.Trains(s.program) }

// splits are the programs that were run, in halves.
type splits map[*program.Program]*split

// of returns the halves of a program, which it splits once.
func (all splits) of(p *program.Program) (*split, error) {
	if s := all[p]; s != nil {
		return s, nil
	}
	if err := ops.Verify(p, program.StageLocal); err != nil {
		return nil, err
	}
	s, err := splitByRole(p)
	if err == nil {
		all[p] = s
	}
	return s, err
}

// state is a persistable variable that the forward half writes.
type state struct {
	name  string
	merge ops.Merge
}

// splitByRole divides the ops of the global block. The halves share all declarations and the startup program.
func splitByRole(p *program.Program) (*split, error) {
	s := &split{program: p, forward: p.Clone(), update: p.Clone(), updated: map[string]bool{}, byRows: map[string]string{}}
	var err error
	s.forward.Global().Ops, s.update.Global().Ops = nil, nil
	written := map[string]bool{} // by the forward half
	crosses := map[string]bool{}
	for _, op := range p.Global().Ops {
		def, _ := ops.Lookup(op.Type)
		switch {
		case def.Class == ops.Feed || def.Class == ops.Read:
		case isUpdate(op):
			if err := s.addUpdate(p, op, crosses); err != nil {
				return nil, err
			}
		default:
			if err := s.addForward(p, op, def, written); err != nil {
				return nil, err
			}
		}
	}
	if err := s.splitRows(); err != nil {
		return nil, err
	}
	s.crosses = slices.Sorted(maps.Keys(crosses))
	s.findParameters()
	if s.merge = ops.MergeMean; s.trains() {
		s.merge, err = ops.GradientMerge(p)
	}
	return s, err
}

// findParameters lists the parameters that the update writes: those that are declared as such, and those that the forward half reads.
func (s *split) findParameters() {
	read := map[string]bool{}
	for _, op := range s.forward.Global().Ops {
		reads, _ := s.forward.Global().Touches(op)
		maps.Copy(read, reads)
	}
	for name := range s.updated {
		if v, ok := s.program.Global().Find(name); ok && v.Persistable && (v.IsParameter || read[name]) {
			s.parameters = append(s.parameters, name)
		}
	}
	slices.Sort(s.parameters)
}

func isUpdate(op *program.Op) bool {
	return op.Role().Has(program.RoleOptimize) || op.Role().Has(program.RoleLRSched)
}

// addUpdate takes an op into the half that updates. What it needs of the forward half is added to crosses.
func (s *split) addUpdate(p *program.Program, op *program.Op, crosses map[string]bool) error {
	for _, name := range op.InputNames() {
		v, _ := p.Global().Find(name)
		switch {
		case s.updated[name] || v.Persistable:
		case v.Kind == program.SelectedRows:
			form, err := s.crossByRows(op, v)
			if err != nil {
				return err
			}
			crosses[form] = true
		default:
			crosses[name] = true
		}
	}
	for _, name := range op.OutputNames() {
		s.updated[name] = true
	}
	s.update.Global().Append(op.Clone())
	return nil
}

// addForward takes an op into the forward half. It must not need what the update computes in the same round.
func (s *split) addForward(p *program.Program, op *program.Op, def *ops.Def, written map[string]bool) error {
	for _, name := range op.InputNames() {
		if s.updated[name] && !written[name] {
			return ops.At(op, fault.E(fault.Unsupported, fault.Var(name),
				fault.Got("a forward op that reads what an update op computes in the same step"), fault.Want("updates after the backward pass")))
		}
	}
	for slot, names := range op.Outputs {
		for _, name := range names {
			if name == program.Empty {
				continue
			}
			written[name] = true
			if v, _ := p.Global().Find(name); v.Persistable {
				s.state = append(s.state, state{name, def.State[slot]})
			}
		}
	}
	s.forward.Global().Append(op.Clone())
	return nil
}

// A request is what a half of a program was prepared for.
type request struct {
	half          *program.Program
	shapes, fetch string
}

// prepared are the halves that were compiled.
type prepared map[request]*executor.Prepared

// of compiles a half for feeds of these shapes, once.
func (all prepared) of(ctx context.Context, local *executor.Local, half *program.Program, feed executor.Feed,
	fetch []string) (*executor.Prepared, error) {
	var shapes strings.Builder
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		fmt.Fprintf(&shapes, "%q%s", name, feed[name])
	}
	key := request{half, shapes.String(), fmt.Sprintf("%q", fetch)}
	if p := all[key]; p != nil {
		return p, nil
	}
	p, err := local.Prepare(ctx, half, feed, fetch...)
	if err == nil {
		all[key] = p
	}
	return p, err
}
