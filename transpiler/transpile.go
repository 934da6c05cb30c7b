package transpiler

import (
	"context"
	"strconv"

	"github.com/edl-go/edl/program"
)

// A Result is what Transpile makes of a program. The programs share nothing with the user's.
type Result struct {
	Trainer   *program.Program   // of every trainer, with its startup program
	Save      *program.Program   // collects the model on a trainer and saves it
	PServers  []*program.Program // of each server by index, with their startup programs
	Placement Placement
	Stages    []Stage // one per pass, in order
}

// Transpile makes the role programs of p, which stays as it is. The same program and configuration give the same programs, with
// equal hashes, in every process. The error is a *fault.Fault or a fault.List.
func Transpile(ctx context.Context, p *program.Program, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &state{cfg: cfg, source: p, names: newNameSpace(p), result: &Result{}}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.result, nil
}

// A NamedProgram is a role program with the name that dumps give it, such as "trainer" or "pserver_0".
type NamedProgram struct {
	Name    string
	Stage   program.Stage // by which it is verified
	Program *program.Program
}

// Programs returns the role programs that exist: trainer, save, and the pservers in order.
func (r *Result) Programs() []NamedProgram {
	var all []NamedProgram
	add := func(name string, stage program.Stage, p *program.Program) {
		if p != nil {
			all = append(all, NamedProgram{name, stage, p})
		}
	}
	add("trainer", program.StageTrainer, r.Trainer)
	add("save", program.StageSave, r.Save)
	for i, p := range r.PServers {
		add("pserver_"+strconv.Itoa(i), program.StagePServer, p)
	}
	return all
}
