package edlcmd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/edlcmd/internal/feedfile"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/freememory"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// runOnce feeds, runs one step and prints what was fetched.
func runOnce(cmd *cobra.Command, c *console, f *runFlags, spec *job.JobSpec, p *program.Program) (err error) {
	ctx, flags := cmd.Context(), cmd.Flags()
	if err := refuseIdle(flags, readingFlags, "a program that is run once", "one that reads its own data, and no --feed"); err != nil {
		return err
	}
	if err := refuseIdle(flags, []string{"export", "export-fetch"}, "a program that is run once", "one that trains on its own data; \"edl export\" exports others"); err != nil {
		return err
	}
	fetch := spec.Fetch
	if len(fetch) == 0 {
		fetch = p.Targets()
	}
	if len(fetch) == 0 {
		return fault.E(fault.InvalidArgument, fault.Got("nothing to compute: the program has no fetch op"), fault.Want("--fetch NAME"))
	}
	whole, where := p, f.where
	where.remote = where.remote && trains(p) // what trains nothing has nothing to spread
	if !where.remote {
		ofCluster := append(append([]string{"etcd"}, accessFlags...), clusterFlags...)
		if err := refuseIdle(flags, ofCluster, "a program that trains nothing, which no cluster runs", "one that trains"); err != nil {
			return err
		}
		if spec.Save != "" {
			return fault.E(fault.InvalidArgument, fault.At("--save"), fault.Got("a program that runs once and changes nothing"),
				fault.Want("one that trains on its own data"))
		}
		if p, err = only(p, fetch); err != nil {
			return err
		}
	}
	var feed executor.Feed
	if len(f.feed) == 1 && len(f.lod) == 0 {
		if feed, err = feedOfRows(ctx, schemaIn(f.model), f.feed[0], p); err != nil {
			return err
		}
	}
	if feed == nil {
		if feed, err = readFeeds(p, whole, f.feed, f.lod, feedBudget(where)); err != nil {
			return err
		}
	}
	for _, name := range unneeded(p, feed) {
		delete(feed, name)
		fmt.Fprintf(c.err, "variable %q is not fed: nothing that is fetched needs it\n", name)
	}
	if err := checkFeeds(p, feed); err != nil {
		return err
	}
	if err := f.start.check(flags, spec, p, trains(whole)); err != nil {
		return err
	}
	e, params, err := f.start.open(ctx, c, where, spec, p)
	if err != nil {
		return err
	}
	defer closeExecutor(e, &err)
	if local, ok := e.(*executor.Local); ok {
		if params != "" {
			if _, err := e.Load(ctx, params, p, f.start.options()); err != nil {
				return err
			}
		}
		for name, value := range f.values {
			if err := local.Scope().Set(name, value); err != nil {
				return err
			}
		}
	}
	values, err := e.Run(ctx, p, feed, fetch...)
	if err != nil {
		return err
	}
	r := newReporter(c, f.output.value, watch{every: f.every}, nil)
	defer r.close()
	for i, value := range values {
		if err := r.value(fetch[i], value); err != nil {
			return err
		}
	}
	return nil
}

// only returns what computes the fetched variables: the test clone of a program, or, if that lacks one, as it lacks gradients, the program as it trains, without its updates.
func only(p *program.Program, fetch []string) (*program.Program, error) {
	test := p.CloneForTest()
	inTest := func(name string) bool { _, ok := test.Global().Var(name); return ok }
	inWhole := func(name string) bool { _, ok := p.Global().Var(name); return ok }
	if !slices.ContainsFunc(fetch, func(name string) bool { return !inTest(name) && inWhole(name) }) {
		return test.Prune(fetch...)
	}
	c := p.Clone()
	b := c.Global()
	b.Ops = slices.DeleteFunc(b.Ops, func(op *program.Op) bool {
		return op.Role().Has(program.RoleOptimize) && slices.ContainsFunc(op.OutputNames(), func(name string) bool {
			v, ok := b.Find(name)
			return ok && v.Persistable
		})
	})
	return c.Prune(fetch...)
}

// readFeeds reads the values of --feed and the offsets of --lod. A file without a name feeds, if its values have names, each variable that has one of them;
// else the next feed op of the program that is not fed. p is what runs of the whole program. A name may be given that only the whole program declares.
func readFeeds(p, whole *program.Program, values, offsets []string, budget *tensor.Budget) (executor.Feed, error) {
	feed, keys := executor.Feed{}, keysOf(whole)
	var others []string
	for _, value := range values {
		if strings.Contains(value, "=") || !feedfile.Many(value) {
			others = append(others, value)
			continue
		}
		needed, known := false, false
		all, err := feedfile.ReadAll(value, func(name string) (*program.Var, bool) {
			v, ok := p.Global().Var(name)
			_, declared := whole.Global().Var(name)
			needed, known = needed || ok, known || declared
			return v, ok
		}, keys, budget)
		if err != nil && (needed || !known || !errors.Is(err, fault.NotFound)) {
			return nil, err
		}
		for name, t := range all {
			if feed[name] != nil {
				return nil, fedTwice(name)
			}
			feed[name] = t
		}
	}
	var unfed []string
	for _, name := range p.Feeds() {
		if feed[name] == nil {
			unfed = append(unfed, name)
		}
	}
	paths, err := feedPaths(unfed, others)
	if err != nil {
		return nil, cmp.Or(undeclared(whole), err)
	}
	for name, path := range paths {
		declared, ok := whole.Global().Var(name)
		if !ok {
			if err := undeclared(whole); err != nil {
				return nil, err
			}
			unknown := whole.Global().Unknown(name, wantedFeeds(whole))
			unknown.Where, unknown.Got = "--feed", "a name that the program does not declare"
			return nil, unknown
		}
		if feed[name] != nil {
			return nil, fedTwice(name)
		}
		if feed[name], err = feedfile.Read(path, declared, keys, budget); err != nil {
			return nil, err
		}
	}
	if err := divide(feed, offsets); err != nil {
		return nil, err
	}
	for name, t := range feed {
		if v, _ := whole.Global().Var(name); v.LoDLevel != len(t.LoD()) {
			hint := "give the offsets of all levels of sequences with --lod, the outermost first, or feed a file that has them: .npz or .jsonl"
			if len(t.LoD()) > v.LoDLevel {
				hint = "leave out offsets of --lod, or arrays NAME.lod0, ... of a .npz file: the program has no sequences of so many levels there"
			}
			return nil, fault.E(fault.ShapeMismatch, fault.At("--feed"), fault.Var(name), fault.Gotf("%d LoD levels", len(t.LoD())),
				fault.Wantf("%d, as the program declares", v.LoDLevel), fault.Hint(hint))
		}
	}
	return feed, nil
}

// feedBudget bounds what fed values take: as much as a program may.
func feedBudget(where place) *tensor.Budget {
	if where.memory > 0 {
		return tensor.NewBudget(min(where.memory, 1<<40) << 20)
	}
	return tensor.NewBudget(freememory.Bytes())
}

// keysOf tells which variables a program looks up in tables that grow.
func keysOf(p *program.Program) feedfile.Keys {
	keys := sparse.KeyFields(p)
	return func(name string) bool { return slices.Contains(keys, name) }
}

// unneeded lists the fed variables that p does not declare.
func unneeded(p *program.Program, feed executor.Feed) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		if _, ok := p.Global().Var(name); !ok {
			names = append(names, name)
		}
	}
	return names
}

func fedTwice(name string) error {
	return fault.E(fault.InvalidArgument, fault.At("--feed"), fault.Var(name), fault.Got("two values"), fault.Want("one"))
}

// divide divides the rows of fed values into sequences, as --lod says.
func divide(feed executor.Feed, offsets []string) error {
	wrong := func(name, got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("--lod"), fault.Var(name), fault.Got(got), fault.Want(want))
	}
	for _, value := range offsets {
		name, text, ok := strings.Cut(value, "=")
		switch {
		case !ok || name == "" || text == "":
			return wrong("", fault.Quote(value), "NAME=OFFSETS, such as words=0,2,5")
		case feed[name] == nil:
			return wrong(name, "a variable that is not fed", "--feed "+name+"=FILE")
		case len(feed[name].LoD()) > 0:
			return wrong(name, "a value that has offsets already", "offsets in the file, or in one --lod")
		}
		lod, err := tensor.ParseLoD(text)
		if err == nil {
			feed[name].SetLoD(lod)
			err = tensor.CheckLoD(feed[name])
		}
		if err != nil {
			return fault.E(fault.KindOf(err), fault.At("--lod"), fault.Var(name), fault.Cause(err))
		}
	}
	return nil
}

// feedPaths gives each value of --feed its variable. ops are the variables of feed ops that a value without a name may be for.
func feedPaths(ops []string, values []string) (map[string]string, error) {
	paths := map[string]string{}
	var unnamed []string
	for _, value := range values {
		name, path, named := strings.Cut(value, "=")
		switch {
		case !named:
			unnamed = append(unnamed, value)
		case name == "" || path == "" || paths[name] != "":
			return nil, fault.E(fault.InvalidArgument, fault.At("--feed"), fault.Got(fault.Quote(value)), fault.Want("NAME=FILE, each name once"))
		default:
			paths[name] = path
		}
	}
	for _, name := range ops {
		if len(unnamed) > 0 && paths[name] == "" {
			paths[name], unnamed = unnamed[0], unnamed[1:]
		}
	}
	if len(unnamed) > 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("--feed"), fault.Got(fault.Quote(unnamed[0])),
			fault.Want("NAME=FILE, since the program has no feed op left for it"), fault.Hint(writeName(unnamed[0])))
	}
	return paths, nil
}

// writeName says how a file without a name is given for the variable that it is named after.
func writeName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return fmt.Sprintf("for the variable %s write --feed %s=%s", name, name, path)
}

// undeclared returns why a program can be fed nothing: an op of it reads what no variable is declared for. nil: there is no such op.
func undeclared(p *program.Program) error {
	b := p.Global()
	for _, op := range b.Ops {
		for _, name := range op.InputNames() {
			if _, ok := b.Var(name); !ok && !strings.Contains(name, program.GradSuffix) {
				return ops.At(op, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("an input that the program does not declare, so that it cannot be fed"),
					fault.Want("a declared variable")))
			}
		}
	}
	return nil
}

// wantedFeeds names what a program can be fed.
func wantedFeeds(p *program.Program) string {
	if names := p.Feeds(); len(names) > 0 {
		return "one of " + strings.Join(names, ", ")
	}
	return "a variable of the program"
}

// checkFeeds reports every variable that p reads and that nothing gives a value.
func checkFeeds(p *program.Program, feed executor.Feed) error {
	block := p.Global()
	known := map[string]bool{}
	var missing []string
	for _, op := range block.Ops {
		for _, name := range op.InputNames() {
			v, declared := block.Var(name)
			if known[name] || feed[name] != nil || !declared || v.Persistable || v.Kind != program.LoDTensor {
				continue
			}
			known[name] = true
			missing = append(missing, describe(v))
		}
		if op.Type == "feed" || op.Type == "read" {
			continue
		}
		for _, name := range op.OutputNames() {
			known[name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got("no value for "+strings.Join(missing, ", ")), fault.Want("--feed NAME=FILE for each"))
}

// describe names a variable with its type, such as "x float32[-1 13]".
func describe(v *program.Var) string { return fmt.Sprintf("%s %s%v", v.Name, v.DType, v.Dims) }
