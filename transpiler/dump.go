package transpiler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A Change is a program that a pass made or changed.
type Change struct {
	Name   string
	Before *program.Program // the program as the pass found it; the user's for a program that the pass made, nil for the user's itself
	After  *program.Program
}

// Changes returns for each of Stages the programs that its pass changed; the first stage has the user's program. It needs stages
// that were recorded with Config.Dump.
func (r *Result) Changes() ([][]Change, error) {
	type version struct {
		program *program.Program
		hash    program.Hash
	}
	latest := map[string]version{}
	all := make([][]Change, len(r.Stages))
	for i, stage := range r.Stages {
		if stage.Programs == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Got("stages without programs"),
				fault.Want("a result of Transpile with Config.Dump set"))
		}
		for _, p := range stage.Programs {
			hash, err := p.Program.Hash()
			if err != nil {
				return nil, err
			}
			before, known := latest[p.Name]
			if known && before.hash == hash {
				continue
			}
			if !known {
				before = latest["input"]
			}
			latest[p.Name] = version{p.Program, hash}
			all[i] = append(all[i], Change{p.Name, before.program, p.Program})
		}
	}
	return all, nil
}

// WriteDump writes into dir, which is created, what each pass changed: a folder per pass, numbered in order, with each program as text
// (.txt) and as a program file (.pb). Passes that change no program have no folder. It needs stages that were recorded with Config.Dump.
func (r *Result) WriteDump(dir string) error {
	changes, err := r.Changes()
	if err != nil {
		return err
	}
	for i, changed := range changes {
		if len(changed) == 0 {
			continue
		}
		folder := filepath.Join(dir, fmt.Sprintf("%02d_%s", i, strings.ReplaceAll(r.Stages[i].Pass, " ", "_")))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fault.Wrap(fault.InvalidArgument, folder, err)
		}
		for _, c := range changed {
			if err := writeProgram(filepath.Join(folder, c.Name), c.After); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeProgram(path string, p *program.Program) error {
	if err := p.Save(path + ".pb"); err != nil {
		return err
	}
	var text strings.Builder
	if err := p.Text(&text, program.TextOptions{Full: true}); err != nil {
		return err
	}
	return fault.Wrap(fault.InvalidArgument, path+".txt", os.WriteFile(path+".txt", []byte(text.String()), 0o644))
}
