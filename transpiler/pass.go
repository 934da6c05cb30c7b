package transpiler

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A Pass is one step of the transpiler.
type Pass struct {
	Name  string
	Doc   string
	After []string // passes whose results it reads
	run   func(*state) error
}

// passes is the table, in the order in which they run.
var passes = []Pass{
	{"verify input", "Checks the user's program, so that later passes can rely on its form.", nil, verifyInput},
	{"classify", "Gives each op a duty by its role.", []string{"verify input"}, classify},
	{"global part", "Finds scalars that connect updates of parameters, as in global-norm clipping.", []string{"classify"}, findGlobalPart},
	{"groups", "Joins update ops that must run on one server.", []string{"global part"}, formGroups},
	{"contributions", "Finds forward state, and checks what trainers and servers take from each other.", []string{"groups"}, findContributions},
	{"slice", "Divides parameters by rows if that changes no bit.", []string{"groups", "contributions"}, slice},
	{"place", "Chooses the server of each slice.", []string{"slice", "contributions"}, assignServers},
	{"server variables", "Lists the variables that each server keeps.", []string{"place"}, listServerVars},
	{"fetch", "Finds where trainers get the variables that they report.", []string{"server variables"}, findFetched},
	{"trainer", "Writes the program of trainers.", []string{"server variables", "fetch"}, buildTrainer},
	{"trainer startup", "Writes the startup program of trainers.", []string{"trainer"}, buildTrainerStartup},
	{"pservers", "Writes the program of each server.", []string{"server variables"}, buildPServers},
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

func verifyInput(s *state) error { return ops.Verify(s.source, program.StageLocal) }
