package edlcmd

import (
	"context"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runFlags are the flags of "edl run".
type runFlags struct {
	jobFlags
	cluster etcdFlags
	where   place
	feed    []string
	every   uint64
	output  *choice
	trace   string
}

func newRun(c *console) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [PROGRAM]",
		Short: "Run a program: once on what is fed, or to the end of its data",
		Long: `Run a program, which is a file, or a directory that holds ` + modelFile + ` and parameters.

A program that reads its own data runs until its passes are done; --data says where the data is, and --save where
the parameters go. Any other program, and any with --feed, runs once and prints what --fetch names. Then only what
the fetched variables depend on is computed, as it is after training.`,
		Example: `  edl run program.pb --data train='data/train-*' --passes 3 --save model
  edl run program.pb --data train='data/train-*' --remote --trainers 2 --pservers 2
  edl run model --feed x=x.npy --fetch fc_0.tmp_1`,
		Args: cobra.MaximumNArgs(1),
	}
	f.addTraining(cmd)
	f.addCluster(cmd)
	f.addSupervision(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.fetch, "fetch", nil, "variables to report (default: the loss, or what the program's fetch ops name)")
	flags.StringSliceVar(&f.follow, "follow", nil, "datasets that grow while the job runs, until a file named _END is beside their files")
	flags.StringVar(&f.save, "save", "", "directory to save persistable variables to when the run is done")
	flags.StringArrayVar(&f.feed, "feed", nil, "value of a variable, as `NAME=FILE` (.npy or .csv); without NAME, of the next feed op; repeatable")
	flags.Uint64Var(&f.every, "every", 10, "report every so many steps")
	flags.StringVar(&f.where.address, "remote", "", "run on the cluster of the listener at `ADDR`; without ADDR on processes of this machine")
	flags.Lookup("remote").NoOptDefVal = onThisMachine
	f.cluster.add(cmd)
	flags.StringVar(&f.trace, "profile", "", "write when each op ran to this `FILE`, for about:tracing and ui.perfetto.dev")
	f.where.launcher = c.launcherFlag(cmd)
	f.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runProgram(cmd, c, f, args) }
	return cmd
}

// onThisMachine is the value of --remote without an address.
const onThisMachine = "processes"

func runProgram(cmd *cobra.Command, c *console, f *runFlags, args []string) error {
	f.where.remote, f.where.binary, f.where.settings = f.where.address != "", c.binary, c.settings
	if c.ran == nil {
		f.where.told = c.err
	}
	if f.where.address == onThisMachine {
		f.where.address = ""
	}
	if f.where.address != "" {
		if err := checkAddress("--remote", f.where.address); err != nil {
			return err
		}
	}
	if err := f.findCluster(cmd.Flags(), c); err != nil {
		return err
	}
	if f.every == 0 {
		return fault.E(fault.InvalidArgument, fault.At("--every"), fault.Got("0"), fault.Want("1 or more"))
	}
	f.alone = !f.where.remote
	spec, path, err := f.spec(cmd, args)
	if err != nil {
		return err
	}
	p, params, err := loadWhole(path)
	if err != nil {
		return err
	}
	if spec.Params == "" {
		spec.Params = params
	}
	if f.where.remote {
		if err := absolutePaths(spec); err != nil {
			return err
		}
	}
	write, err := f.where.profiled(f.trace)
	if err != nil {
		return err
	}
	if len(f.feed) > 0 || len(p.Feeds()) > 0 || !reads(p) {
		return write(runOnce(cmd, c, f, spec, p))
	}
	return write(runToEnd(cmd.Context(), c, f, spec, p))
}

// findCluster says which etcd the cluster uses that the run starts, if it starts one, and refuses flags for a cluster that there is not.
func (f *runFlags) findCluster(flags *pflag.FlagSet, c *console) (err error) {
	ofEtcd := append([]string{"etcd"}, accessFlags...)
	switch {
	case !f.where.remote:
		return refuseIdle(flags, append(ofEtcd, clusterFlags...), "a run without a cluster", "--remote beside it")
	case f.where.address != "":
		return refuseIdle(flags, ofEtcd, "a cluster that has its etcd", "--remote without an address",
			"give it to the \"edl listen\" that listens there")
	}
	f.where.etcd, err = f.cluster.options(flags, c)
	f.where.access, f.where.endpoints = f.cluster.access, f.cluster.endpoints
	return err
}

// A runResult is what a run to the end came to.
type runResult struct {
	summary executor.Summary
	means   means
}

// runToEnd runs a program that reads its own data until its passes are done.
func runToEnd(ctx context.Context, c *console, f *runFlags, spec *job.JobSpec, p *program.Program) (err error) {
	if f.where.remote && f.where.address == "" && spec.Save != "" { // a listener may be on a machine with other directories
		if err := executor.PrepareSave(spec.Save); err != nil {
			return err
		}
	}
	what := watchOf(p, spec.Fetch, f.every)
	run := executor.TrainOptions{Data: bindings(spec), Passes: int(spec.Passes), Fetch: what.names, Save: spec.Save}
	r := newReporter(c, f.output.value, what, func() int64 { return recordsOf(ctx, p, run) })
	defer r.close()
	result := &runResult{}
	result.summary, err = runTrain(ctx, f.where, spec, p, run, func(s executor.StepResult) error {
		if s.Step == 0 {
			result.means = means{} // a job that has lost a server begins again
		}
		result.means.add(what.names, s)
		return r.step(s)
	})
	if err != nil {
		return err
	}
	if c.ran != nil {
		c.ran(result)
	}
	return r.done(result.summary, &result.means)
}

// watchOf decides what a run fetches: the given variables, by default those of the program's fetch ops, and the loss in any case.
func watchOf(p *program.Program, fetch []string, every uint64) watch {
	w := watch{names: fetch, loss: lossName(p), every: every, mean: !trains(p)}
	if len(fetch) == 0 {
		w.names = p.Targets()
	}
	for _, name := range w.names {
		if name == w.loss {
			return w
		}
	}
	if w.loss != "" {
		w.names = append([]string{w.loss}, w.names...)
	}
	return w
}

// newReporter chooses how a run is shown. total counts the records of the run for a progress bar; nil when there is none to show.
func newReporter(c *console, output string, what watch, total func() int64) reporter {
	switch {
	case output == "json":
		return newJSONReporter(c.out, what)
	case total != nil && isTerminal(c.out) && isTerminal(c.err):
		return newBarReporter(c.err, c.out, what, total())
	}
	return newTextReporter(c.out, what)
}

// recordsOf counts the records that a run will read, 0 when that cannot be told.
func recordsOf(ctx context.Context, p *program.Program, run executor.TrainOptions) int64 {
	source, err := executor.OpenFiles(ctx, p, run.Data, run.Passes)
	if err != nil {
		return 0
	}
	defer source.Close()
	return source.NumRecords() * int64(source.Passes())
}
