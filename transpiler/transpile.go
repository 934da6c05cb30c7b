package transpiler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A Result holds the role programs of a program. They share nothing with the user's program.
type Result struct {
	Trainer   *program.Program   // of every trainer, with its startup program
	Save      *program.Program   // collects the model on a trainer and saves it
	PServers  []*program.Program // of each server by index, with their startup programs
	Placement Placement
	Stages    []Stage // one per pass, in order
}

// Transpile makes the role programs of p and does not change p. The same program and configuration give the same programs, with equal hashes, in
// every process. The error is a *fault.Fault or a fault.List.
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

// A NamedProgram is a role program with its name in dumps, such as "trainer" or "pserver_0".
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

// A Stage is the result of one pass.
type Stage struct {
	Pass     string
	Duration time.Duration  // of the pass, without verification
	Programs []NamedProgram // the user's program as "input", and copies of the role programs that exist; nil unless Config.Dump is set
}

// A watch measures one pass.
type watch struct {
	state *state
	pass  string
	start time.Time
}

func (s *state) begin(pass string) watch { return watch{s, pass, time.Now()} }

// end records the pass.
func (w watch) end() {
	stage := Stage{Pass: w.pass, Duration: time.Since(w.start)}
	if w.state.cfg.Dump {
		stage.Programs = append(stage.Programs, NamedProgram{"input", program.StageLocal, inputCopy(w.state)})
		for _, r := range w.state.result.Programs() {
			r.Program = r.Program.Clone()
			stage.Programs = append(stage.Programs, r)
		}
	}
	w.state.result.Stages = append(w.state.result.Stages, stage)
}

// inputCopy returns one copy of the user's program for all stages.
func inputCopy(s *state) *program.Program {
	if stages := s.result.Stages; len(stages) > 0 {
		return stages[0].Programs[0].Program
	}
	return s.source.Clone()
}

// A Change is a program that a pass made or changed.
type Change struct {
	Name   string
	Before *program.Program // the program as the pass found it; the user's for a program that the pass made, nil for the user's itself
	After  *program.Program
}

// Changes returns, for each of Stages, the programs that the pass changed. The first stage has the user's program. It needs a result with
// Config.Dump.
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

// WriteDump writes what the passes changed into dir, which it creates: a folder for each pass that changed a program, numbered from 00 in order, with
// each program as text (.txt) and as a program file (.pb). WriteDump needs a result with Config.Dump.
func (r *Result) WriteDump(dir string) error {
	changes, err := r.Changes()
	if err != nil {
		return err
	}
	folders := 0
	for i, changed := range changes {
		if len(changed) == 0 {
			continue
		}
		folder := filepath.Join(dir, fmt.Sprintf("%02d_%s", folders, strings.ReplaceAll(r.Stages[i].Pass, " ", "_")))
		folders++
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

// A Pass is one step of the transpiler.
type Pass struct {
	Name  string
	Doc   string
	After []string // passes whose results it reads
	run   func(*state) error
}

// passes is the table, in the order in which they run.
var passes = []Pass{
	{"verify input", "Checks the user's program, and corrects declarations of temporary variables, so that later passes can rely on its form.", nil, verifyInput},
	{"totals", "Lets trainers share sums and means of the batch, where the loss needs them.", []string{"verify input"}, shareTotals},
	{"conditional updates", "Divides conditional updates by parameter.", []string{"totals"}, divideConditional},
	{"classify", "Gives each op a duty by its role.", []string{"conditional updates"}, classify},
	{"global part", "Finds scalars that connect updates of parameters, as in global-norm clipping.", []string{"classify"}, findGlobalPart},
	{"groups", "Joins update ops that must run on one server.", []string{"global part"}, formGroups},
	{"tables", "Finds the tables that only servers hold.", []string{"groups"}, findTables},
	{"contributions", "Finds forward state, and checks what trainers and servers take from each other.", []string{"groups"}, findContributions},
	{"slice", "Divides parameters by rows if that changes no bit.", []string{"groups", "contributions"}, slice},
	{"forms", "Chooses what travels in fewer bits, or by rows.", []string{"slice", "tables"}, chooseForms},
	{"place", "Chooses the server of each slice.", []string{"slice", "contributions"}, assignServers},
	{"server variables", "Lists the variables that each server keeps.", []string{"place"}, listServerVars},
	{"fetch", "Finds where trainers get the variables that they report.", []string{"server variables"}, findFetched},
	{"trainer", "Writes the program of trainers.", []string{"server variables", "fetch", "forms", "tables"}, buildTrainer},
	{"trainer startup", "Writes the startup program of trainers.", []string{"trainer"}, buildTrainerStartup},
	{"pservers", "Writes the program of each server.", []string{"server variables", "forms"}, buildPServers},
	{"pserver startup", "Writes the startup program of each server.", []string{"pservers"}, buildPServerStartups},
	{"save", "Writes the program that saves the model.", []string{"server variables"}, buildSave},
}

// Passes returns the table of passes, in the order in which they run.
func Passes() []Pass { return slices.Clone(passes) }

func init() {
	if name := misplaced(passes); name != "" {
		panic("transpiler: pass " + name + " stands before one that it needs, or twice")
	}
}

// misplaced returns the first pass of a table that occurs twice or before a pass that it needs, "" if there is none.
func misplaced(table []Pass) string {
	done := map[string]bool{}
	for _, p := range table {
		if done[p.Name] || slices.ContainsFunc(p.After, func(name string) bool { return !done[name] }) {
			return p.Name
		}
		done[p.Name] = true
	}
	return ""
}

// run runs all passes. After each pass that changed role programs it verifies them.
func (s *state) run(ctx context.Context) error {
	verified := map[*program.Program]bool{}
	for _, p := range passes {
		if err := ctx.Err(); err != nil {
			return fault.Wrap(fault.Canceled, "transpiler pass "+p.Name, err)
		}
		watch := s.begin(p.Name)
		if err := p.run(s); err != nil {
			return err
		}
		watch.end()
		if err := s.verify(verified); err != nil {
			return fault.Wrap(fault.Internal, "after transpiler pass "+p.Name, err)
		}
	}
	return nil
}

// verify checks the role programs that are new, or whose startup program is new, since the last call.
func (s *state) verify(verified map[*program.Program]bool) error {
	for _, r := range s.result.Programs() {
		key := r.Program
		if r.Program.Startup != nil && len(r.Program.Startup.Global().Ops) > 0 {
			key = r.Program.Startup
		}
		if verified[key] {
			continue
		}
		if err := ops.Verify(r.Program, r.Stage); err != nil {
			return fault.Wrap(fault.KindOf(err), r.Name, err)
		}
		verified[key] = true
	}
	return nil
}

func verifyInput(s *state) error {
	if err := ops.Verify(s.source, program.StageLocal); err != nil {
		return err
	}
	s.source = ops.Redeclare(s.source)
	return nil
}
