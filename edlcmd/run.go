package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runFlags are the flags of "edl run".
type runFlags struct {
	jobFlags
	cluster etcdFlags
	where   place
	feed    []string
	lod     []string
	every   uint64
	start   startFlags
	startup startupFlag
	export  runExport
	metrics []string
	eval    evalFlags
	change  overrides
	tables  tableData
	model   string                    // the path of the program
	values  map[string]*tensor.Tensor // the parameters of an ONNX model
	curves  curveFlags
	output  *choice
	trace   string
}

func newRun(c *console) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:        "run [PROGRAM]",
		SuggestFor: []string{"train", "fit", "evaluate"},
		Short:      "Run a program: once on what is fed, or to the end of its data",
		Long: `Run a program, which is a file, or a directory that holds ` + modelFile + ` and parameters.

A program that reads its own data runs until its passes are done; --data says where the data is, and --save where
the parameters go. Any other program, and any with --feed, runs once and prints what --fetch names. Then only what
the fetched variables depend on is computed, as it is after training. With a gradient among them it is computed as a
training step does, and nothing is updated.`,
		Example: `  edl run program.pb --data train='data/train-*' --passes 3 --save model
  edl run program.pb --data train='data/train-*' --remote --trainers 2 --pservers 2
  edl run model --feed x=x.npy --fetch fc_0.tmp_1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := addressAfter("--remote", len(args) > 1 && f.where.address == onThisMachine, args); err != nil {
				return err
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
	}
	f.addTraining(cmd)
	f.addCluster(cmd)
	f.addSupervision(cmd)
	f.addNames(cmd)
	f.addNeeds(cmd)
	f.addResults(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.export.dir, "export", "", "write the trained model for use to the directory `DIR` of this machine, or to a URL such as s3://bucket/folder, when the run is done")
	flags.StringSliceVar(&f.export.targets, "export-fetch", nil, "with --export: the model computes the variables `NAME,...` (default: those of --fetch)")
	flags.StringArrayVar(&f.feed, "feed", nil, "value of a variable, as `NAME=FILE` (.npy, .npz, .csv or .jsonl); without NAME, of the next feed op, or with .npz and .jsonl of every variable that the file names; repeatable")
	flags.StringArrayVar(&f.lod, "lod", nil, "with --feed: the rows of a variable form sequences, as `NAME=0,2,5`; levels of sequences of sequences follow after /; repeatable")
	flags.Uint64Var(&f.every, "every", 10, "report every `N` steps")
	flags.StringVar(&f.where.address, "remote", "", "run on the cluster of the listener at `ADDR`, the host:port that its \"edl listen\" prints, or several, separated by commas, of one that others wait for; without ADDR on processes of this machine")
	flags.Lookup("remote").NoOptDefVal = onThisMachine
	flags.Lookup("params").Usage += ", or a checkpoint STORE[@STEPS]"
	metricFlag(cmd, &f.metrics)
	f.eval.add(cmd)
	f.change.add(cmd)
	f.tables.add(cmd)
	f.curves.add(cmd)
	f.start.add(cmd)
	f.startup.add(cmd)
	f.cluster.add(cmd)
	flags.Int64Var(&f.where.memory, "memory", 0, "refuse a program that needs more than `N` MiB on this machine (default: what the machine has free)")
	flags.StringVar(&f.trace, "profile", "", "write when each op ran, and on a cluster each phase of each round, to this `FILE`, for ui.perfetto.dev")
	f.where.launcher = c.launcherFlag(cmd)
	f.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runProgram(cmd, c, f, args) }
	return cmd
}

// onThisMachine is the value of --remote without an address.
const onThisMachine = "processes"

func runProgram(cmd *cobra.Command, c *console, f *runFlags, args []string) (err error) {
	f.where.remote, f.where.binary, f.where.settings = f.where.address != "", c.binary, c.settings
	if c.ran == nil {
		f.where.notices = c.err
	}
	if f.where.address == onThisMachine {
		f.where.address = ""
	}
	if f.where.address != "" {
		if err := checkAddresses("--remote", f.where.address); err != nil {
			return err
		}
	}
	if err := f.findCluster(cmd.Flags(), c); err != nil {
		return err
	}
	if cmd.Flags().Changed("memory") && f.where.memory < 1 {
		return tooFew("--memory", f.where.memory)
	}
	if f.every == 0 {
		return fault.E(fault.InvalidArgument, fault.At("--every"), fault.Got("0"), fault.Want("1 or more"))
	}
	defer func() { err = f.where.nameMemory(err) }()
	f.alone = !f.where.remote
	spec, path, err := f.spec(cmd, args)
	if err != nil {
		return err
	}
	path, fetched, err := localModel(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer fetched()
	p, params, err := f.load(path)
	if err != nil {
		return err
	}
	release, err := f.hold(spec)
	if err != nil {
		return err
	}
	defer release()
	if spec.Save != "" && f.where.address == "" { // a listener checks what it writes
		if err := export.CheckSave(cmd.Context(), spec.Save, p, spec.Overwrite); err != nil {
			return err
		}
	}
	if _, missing := os.Lstat(spec.Save); f.where.address == "" && spec.Save != "" && errors.Is(missing, fs.ErrNotExist) {
		defer func() {
			if err != nil {
				dropEmpty(spec.Save)
			}
		}()
	}
	if err := f.startup.give(p); err != nil {
		return err
	}
	if err := f.tables.give(cmd.Context(), c, spec.Data, &f.eval, f.model, p, f.feed); err != nil {
		return err
	}
	if spec.Params == "" {
		spec.Params = params
	}
	if bucket.IsURL(spec.Params) {
		dir, found, done, failed := fetchModel(cmd.Context(), spec.Params)
		if failed != nil {
			return failed
		}
		if found {
			defer done()
			defer func(address string) { err = placedAt(err, dir, address) }(spec.Params)
			spec.Params = dir
		}
	}
	if checkpoint.IsAddress(spec.Params) {
		dir, failed := f.start.unpack(cmd.Context(), spec.Params, p, f.where.notices)
		if failed != nil {
			return failed
		}
		defer os.RemoveAll(dir)
		defer func(address string) { err = placedAt(err, dir, address) }(spec.Params)
		spec.Params = dir
	}
	if f.where.remote {
		if err := absolutePaths(spec); err != nil {
			return err
		}
	}
	if f.where.remote && f.where.address == "" { // its cluster is on this machine
		if err := jobspec.CheckFiles(cmd.Context(), spec); err != nil {
			return err
		}
	}
	if len(f.lod) > 0 && len(f.feed) == 0 {
		return fault.E(fault.InvalidArgument, fault.At("--lod"), fault.Got("no --feed"), fault.Want("--feed NAME=FILE of the same variable"))
	}
	if len(f.feed) == 0 {
		if err := f.change.batch.attach(cmd.Flags(), spec, p); err != nil {
			return err
		}
	}
	once := len(f.feed) > 0 || len(p.Feeds()) > 0 || !reads(p)
	if once && f.trace != "" && f.where.remote {
		return fault.E(fault.InvalidArgument, fault.At("--profile"), fault.Got("a single step on a cluster"),
			fault.Want("a program that reads its own data, and no --feed; or no --remote"))
	}
	if f.trace != "" && f.where.remote && spec.ProfileSteps == 0 {
		spec.ProfileSteps = profileSteps
	}
	write, err := f.where.profiled(f.trace)
	if err != nil {
		return err
	}
	if once {
		return write(runOnce(cmd, c, f, spec, p))
	}
	return write(runToEnd(cmd, c, f, spec, p))
}

// hold keeps other commands and jobs from the directories that this command writes models to. The listener of a cluster holds what its trainers write to.
func (f *runFlags) hold(spec *job.JobSpec) (release func(), err error) {
	places := []string{f.export.dir}
	if !f.where.remote || f.eval.best != "" {
		places = append(places, spec.Save)
	}
	var held []*executor.Hold
	release = func() {
		for _, h := range held {
			h.Release()
		}
	}
	for _, dir := range places {
		h, err := executor.HoldDirectory(dir)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, h)
	}
	return release, nil
}

// nameMemory names the flag that bounds memory in an error of what does not fit.
func (w place) nameMemory(err error) error {
	var c *fault.Fault
	if w.remote || !errors.As(err, &c) || c.Kind != fault.TooLarge || !strings.HasSuffix(c.Hint, "allow more memory if the machine has it") {
		return err
	}
	named, bound := *c, "what the machine has free"
	if w.memory > 0 {
		bound = fmt.Sprintf("%d MiB", w.memory)
	}
	named.Hint += fmt.Sprintf(": --memory N, of N MiB; here it is %s", bound)
	return &named
}

// dropEmpty removes a folder if nothing is in it: what PrepareSave has made for a run that then failed.
func dropEmpty(dir string) {
	if info, err := os.Lstat(dir); err == nil && info.IsDir() {
		_ = os.Remove(dir) // which fails where there is something in it
	}
}

// load reads the program at a path, or an ONNX model with its parameters.
func (f *runFlags) load(path string) (p *program.Program, params string, err error) {
	file := onnxOf(path)
	if f.model = path; file == "" {
		return loadWhole(path)
	}
	if f.params != "" {
		return nil, "", fault.E(fault.InvalidArgument, fault.At("--params"), fault.Got("an ONNX model, which has its own parameters"), fault.Want("no --params"))
	}
	m, err := readONNX(file)
	if err != nil {
		return nil, "", err
	}
	f.model, f.values, f.start.own = filepath.Dir(file), m.Values, true
	return m.Program, "", nil
}

// findCluster says which etcd the cluster uses that the run starts, if it starts one, and refuses flags for a cluster that there is not.
func (f *runFlags) findCluster(flags *pflag.FlagSet, c *console) (err error) {
	ofEtcd := append([]string{"etcd"}, accessFlags...)
	switch {
	case !f.where.remote:
		return refuseIdle(flags, append(ofEtcd, clusterFlags...), "a run without a cluster", "it together with --remote")
	case f.where.address != "" && f.where.memory == 0:
		return refuseIdle(flags, ofEtcd, "a cluster that has its etcd", "--remote without an address",
			"give it to the \"edl listen\" that listens there")
	}
	if err := refuseIdle(flags, []string{"memory"}, "a run on a cluster", "no --remote"); err != nil {
		return err
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
func runToEnd(cmd *cobra.Command, c *console, f *runFlags, spec *job.JobSpec, p *program.Program) (err error) {
	ctx := cmd.Context()
	if err := f.start.check(cmd.Flags(), spec, p, false); err != nil {
		return err
	}
	f.change.again = c.again
	if err := f.change.apply(cmd.Flags(), spec, p, spec.Params != "" && !f.start.anew); err != nil {
		return err
	}
	if spec.Save != "" {
		if err := executor.CheckNames(p); err != nil {
			return err
		}
	}
	if f.where.remote && f.where.address == "" && spec.Save != "" { // a listener may be on a machine with other directories
		if err := executor.PrepareSave(spec.Save, p); err != nil {
			return err
		}
	}
	if spec.Save == "" && f.export.dir == "" {
		if err := refuseIdle(cmd.Flags(), []string{"overwrite"}, "a run that writes no model", "it together with --save or --export"); err != nil {
			return err
		}
	}
	if f.export.dir == "" {
		if err := refuseIdle(cmd.Flags(), []string{"export-fetch"}, "a run that exports no model", "it together with --export DIR"); err != nil {
			return err
		}
	}
	exported, err := f.export.program(cmd.Context(), p, spec, f.where.remote)
	if err != nil {
		return err
	}
	evaluates, err := f.eval.prepare(cmd.Context(), cmd.Flags(), f.metrics, f.where, spec, p, exported != nil)
	if err != nil {
		return err
	}
	scored, err := f.scoring(evaluates, spec, p)
	if err != nil {
		return err
	}
	f.where.keep = exported != nil || evaluates != nil && evaluates.needsState()
	what := watchOf(p, spec.Fetch, f.every)
	if err := what.check(spec, p); err != nil && len(scored.specs) == 0 {
		return err
	}
	run := executor.TrainOptions{Data: bindings(spec), Passes: int(spec.Passes), Fetch: scored.fetch(what.names), Save: spec.Save, Ahead: -1}
	if evaluates != nil && evaluates.byTrainers == nil {
		run.Ahead = 0 // an evaluation is that of one step
	}
	begins, said, err := f.start.begins(spec, p)
	if err != nil {
		return err
	}
	r := newReporter(c, f.output.value, what, func() extent { return extentOf(ctx, spec, p, run, begins) })
	defer func() { r.close() }()
	if r, err = f.curves.wrap(r, what); err != nil {
		return err
	}
	result := &runResult{}
	attempt := 0
	e, params, err := f.start.open(ctx, c, f.where, spec, p)
	if err != nil {
		return err
	}
	run.Params = params
	defer closeExecutor(e, &err)
	if evaluates != nil {
		evaluates.show, evaluates.say = r.evaluated, func(format string, values ...any) { fmt.Fprintf(c.err, format, values...) }
		evaluates.keep = func(ctx context.Context) error { return f.keepBest(ctx, c, e, spec, p, exported) }
		if evaluates.best != "" {
			run.Save = "" // the best evaluation has saved
		}
		if err := evaluates.attach(ctx, e, f.where, spec, p, run.Data, begins); err != nil {
			return err
		}
		defer func() {
			if closed := evaluates.close(); err == nil {
				err = closed
			}
		}()
	}
	ending, release := f.endsWithStep(ctx, c, spec, p)
	defer release()
	result.summary, err = e.Train(ending.train, p, run, func(s executor.StepResult) error {
		for _, line := range said {
			fmt.Fprintln(c.err, line)
		}
		said = nil
		if s.Attempt != attempt { // the job has lost a server and starts over
			attempt, result.means = s.Attempt, means{}
			if err := scored.reset(); err != nil {
				return err
			}
		}
		if err := scored.add(s.Fetched); err != nil {
			return err
		}
		s.Fetched = s.Fetched[:len(what.names)]
		result.means.add(what.names, s)
		err := r.step(s)
		if err == nil {
			err = ending.after()
		}
		if err != nil || evaluates == nil || evaluates.byTrainers != nil {
			return err
		}
		return evaluates.after(ctx, s)
	})
	if stopped := ending.ended(c.err, begins, result.summary, err); stopped != nil {
		return stopped
	}
	if err != nil {
		f.sayLost(ctx, c.err, spec, p)
		return f.tables.unseen(err)
	}
	var came outcome
	if evaluates == nil {
		came.metrics, err = scored.set.Results()
	} else if err = evaluates.finish(ctx); err == nil {
		came = evaluates.outcome()
	}
	if err != nil {
		return err
	}
	if f.eval.best == "" {
		if err := f.export.write(ctx, c, e, exported); err != nil {
			return err
		}
	}
	if f.export.said != "" {
		fmt.Fprintln(c.err, f.export.said)
	}
	if c.ran != nil {
		c.ran(result)
	}
	return r.done(result.summary, &result.means, came)
}

// scoring returns the metrics of the program that runs: none if it trains. It refuses what evaluations of a run that trains cannot do.
func (f *runFlags) scoring(evaluates *evaluator, spec *job.JobSpec, p *program.Program) (*scoring, error) {
	if evaluates == nil {
		if len(f.metrics) > 0 && trains(p) {
			return nil, fault.E(fault.InvalidArgument, fault.At("--metric"), fault.Got("a program that trains"),
				fault.Want("it together with --eval-data NAME=GLOB, or a program that only evaluates, such as a clone for test"))
		}
		return newScoring(f.metrics, p)
	}
	if f.where.remote && spec.Mode == job.Mode_ASYNC {
		return nil, fault.E(fault.Unsupported, fault.At("--eval-data"), fault.Got("an async job, which does not wait for evaluations"), fault.Want("--mode sync, or evaluations after the job"))
	}
	if evaluates.best != "" && spec.Save != "" {
		if err := executor.PrepareSave(spec.Save, p); err != nil {
			return nil, err
		}
	}
	return newScoring(nil, p)
}

// keepBest writes what --save and --export name, with the parameters of now. The older files are replaced as a whole.
func (f *runFlags) keepBest(ctx context.Context, c *console, e executor.Executor, spec *job.JobSpec, p, exported *program.Program) error {
	if spec.Save != "" {
		if err := e.Save(ctx, spec.Save, p); err != nil {
			return err
		}
	}
	return f.export.write(ctx, c, e, exported)
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

// check refuses an evaluation that would tell nothing.
func (w watch) check(spec *job.JobSpec, p *program.Program) error {
	if len(w.names) > 0 || trains(p) || spec.Save != "" {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got("an evaluation with nothing to report: the program has no loss and no fetch op"),
		fault.Want("--fetch NAME,..."), fault.Hint("\"edl show PROGRAM\" lists the variables"))
}

// newReporter chooses how a run is shown. of says how much a run reads, for a progress bar; nil when there is none to show.
func newReporter(c *console, output string, what watch, of func() extent) reporter {
	if output == "json" {
		return newJSONReporter(c.out, what)
	}
	if screen := terminalOf(c.err); of != nil && screen != nil && terminalOf(c.out) != nil {
		return newBarReporter(screen, c.out, what, of())
	}
	return newTextReporter(c.out, what)
}

// An extent is how much a run reads.
type extent struct {
	records int64 // 0: not known, as of data that grows
	passes  int   // 1 more than the number of the last pass; 0: not known
}

// extentOf returns what a run reads when it begins with a progress.
func extentOf(ctx context.Context, spec *job.JobSpec, p *program.Program, run executor.TrainOptions, begins executor.Progress) extent {
	if slices.ContainsFunc(spec.Data, func(d *job.DataBinding) bool { return d.Follow }) || spec.Resume != "" {
		return extent{}
	}
	source, err := executor.OpenFiles(ctx, p, run.Data, run.Passes)
	if err != nil {
		return extent{}
	}
	defer source.Close()
	passes := run.Passes
	if passes == 0 {
		passes = source.Passes()
	}
	whole := source.Left()
	source.GoOn(begins)
	return extent{records: source.Left() + int64(passes-1)*whole, passes: source.Position(0).Pass + passes}
}
