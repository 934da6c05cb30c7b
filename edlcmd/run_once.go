package edlcmd

import (
	"fmt"
	"strings"

	"github.com/edl-go/edl/edlcmd/internal/feedfile"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
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
	where := f.where
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
		if p, err = p.CloneForTest().Prune(fetch...); err != nil {
			return err
		}
	}
	feed, err := readFeeds(p, f.feed)
	if err != nil {
		return err
	}
	if err := checkFeeds(p, feed); err != nil {
		return err
	}
	if err := f.start.check(flags, spec, p); err != nil {
		return err
	}
	e, params, err := f.start.open(ctx, c, where, spec, p)
	if err != nil {
		return err
	}
	defer closeExecutor(e, &err)
	if _, ok := e.(*executor.Local); ok && params != "" {
		if _, err := e.Load(ctx, params, p, f.start.options()); err != nil {
			return err
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

// readFeeds reads the values of --feed. A value without a name is for the next feed op of the program that none names.
func readFeeds(p *program.Program, values []string) (executor.Feed, error) {
	paths, err := feedPaths(p.Feeds(), values)
	if err != nil {
		return nil, err
	}
	feed := executor.Feed{}
	for name, path := range paths {
		declared, ok := p.Global().Var(name)
		if !ok {
			return nil, fault.E(fault.NotFound, fault.At("--feed"), fault.Var(name), fault.Got("a name that the program does not declare"),
				fault.Want(wantedFeeds(p)))
		}
		if feed[name], err = feedfile.Read(path, declared); err != nil {
			return nil, err
		}
	}
	return feed, nil
}

// feedPaths gives each value of --feed its variable. ops are the variables of the program's feed ops.
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
			fault.Want("NAME=FILE, since the program has no feed op left for it"))
	}
	return paths, nil
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
