package edlcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
)

// submitFlags are the flags of "edl submit".
type submitFlags struct {
	jobFlags
	find    findFlags
	remote  string
	start   startFlags
	startup startupFlag
	batch   batchFlag
	tables  tableData
	eval    evalFlags
	metrics []string
	output  *choice
	cluster resourceFlagsOfSubmit
}

func newSubmit(c *console) *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "submit [PROGRAM]",
		Short: "Send a job to a listener, and do not wait for it",
		Long: `Send a job to a listener, as "edl run --remote=ADDR" does, and print its name as soon as the listener has taken it. The job goes on
without this command. "edl attach" follows its steps, and "edl jobs", "edl why" and "edl logs" show it.`,
		Example: `  edl submit program.pb --data train='data/train-*' --save model --name digits --label team=vision
  edl attach digits`,
		Args: cobra.MaximumNArgs(1),
	}
	f.addTraining(cmd)
	f.addCluster(cmd)
	f.addSupervision(cmd)
	f.addNames(cmd)
	f.addNeeds(cmd)
	f.addResults(cmd)
	f.find.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.remote, "remote", "", "the same as --listener, as in \"edl run\"")
	flags.BoolVar(&f.start.initial, "init", false, "evaluate with initial parameters, which nothing has trained")
	f.startup.add(cmd)
	f.batch.add(cmd)
	f.tables.add(cmd)
	f.eval.addData(cmd)
	metricFlag(cmd, &f.metrics)
	f.cluster.add(cmd)
	f.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.cluster.on {
			f.cluster.namespace = f.namespace
			return submitResource(cmd, c, f, args)
		}
		if err := refuseIdle(cmd.Flags(), f.cluster.names(), "a job for a listener", "it together with --kubernetes"); err != nil {
			return err
		}
		return submitJob(cmd, c, f, args)
	}
	return cmd
}

// submitJob sends a job and prints its name.
func submitJob(cmd *cobra.Command, c *console, f *submitFlags, args []string) (err error) {
	ctx := cmd.Context()
	spec, path, err := f.spec(cmd, args)
	if err != nil {
		return err
	}
	p, params, err := loadWhole(path)
	if err != nil {
		return err
	}
	if err := f.startup.give(p); err != nil {
		return err
	}
	if err := f.batch.give(cmd.Flags(), spec, p); err != nil {
		return err
	}
	if err := f.tables.give(ctx, c, spec.Data, &f.eval, path, p, nil); err != nil {
		return err
	}
	if spec.Params == "" {
		spec.Params = params
	}
	run, err := f.training(cmd, spec, p)
	if err != nil {
		return err
	}
	address, err := f.address(ctx)
	if err != nil {
		return err
	}
	if spec.Evaluation, err = f.evaluation(ctx, cmd.Flags(), address, spec, p); err != nil {
		return err
	}
	e, err := remote.NewExecutor(address, spec)
	if err != nil {
		return unanswered(nil, err)
	}
	defer closeExecutor(e, &err)
	j, err := e.Submit(ctx, p, run)
	if err != nil {
		return f.tables.unseen(err)
	}
	if f.output.value == "json" {
		return writeJSON(c.out, struct {
			Job      string `json:"job"`
			Listener string `json:"listener"`
		}{j.ID, address})
	}
	fmt.Fprintf(c.err, "job %s on the listener at %s\n", j.ID, address)
	_, err = fmt.Fprintln(c.out, j.ID)
	return err
}

// training checks what the job is to do, and returns it. Paths in spec become absolute.
func (f *submitFlags) training(cmd *cobra.Command, spec *job.JobSpec, p *program.Program) (executor.TrainOptions, error) {
	spec.Params = bucket.LocalPath(spec.Params)
	switch {
	case !bucket.IsURL(spec.Params) && checkpoint.IsAddress(spec.Params): // the listener knows what a URL has
		return executor.TrainOptions{}, fault.E(fault.Unsupported, fault.At("--params"), fault.Got("a checkpoint, for a job that nobody waits for"),
			fault.Want("--resume STORE[@STEPS], or a model that \"edl checkpoint export\" has written"))
	case len(p.Feeds()) > 0 || !reads(p):
		return executor.TrainOptions{}, fault.E(fault.InvalidArgument, fault.Got("a program that is run once, on what it is fed"),
			fault.Want("one that reads its own data, or trains on --data NAME=GLOB with --batch-size N"), fault.Hint("\"edl run\" runs it"))
	}
	if err := f.start.check(cmd.Flags(), spec, p, false); err != nil {
		return executor.TrainOptions{}, err
	}
	if spec.Save != "" {
		if err := executor.CheckNames(p); err != nil {
			return executor.TrainOptions{}, err
		}
	}
	what := watchOf(p, spec.Fetch, 1)
	if err := what.check(spec, p); err != nil {
		return executor.TrainOptions{}, err
	}
	if err := absolutePaths(spec); err != nil {
		return executor.TrainOptions{}, err
	}
	return executor.TrainOptions{Data: bindings(spec), Passes: int(spec.Passes), Fetch: what.names, Save: spec.Save, Params: spec.Params, Ahead: -1}, nil
}

// evaluation is what the trainers of the job are to evaluate while they train; nil: nothing. Nobody waits for it, and nothing follows from it.
func (f *submitFlags) evaluation(ctx context.Context, flags *pflag.FlagSet, address string, spec *job.JobSpec, p *program.Program) (*job.Evaluation, error) {
	if len(f.eval.data) == 0 {
		return nil, refuseIdle(flags, []string{"metric", "eval", "eval-every"}, "a job without held-back data", "it together with --eval-data NAME=GLOB")
	}
	if got, want := jobspec.NotByTrainers(spec); got != "" {
		return nil, fault.E(fault.Unsupported, fault.At("--eval-data"), fault.Got("an evaluation "+got), fault.Want(want))
	}
	v, err := f.eval.prepare(ctx, flags, f.metrics, place{remote: true, address: address}, spec, p, false)
	if err != nil {
		return nil, err
	}
	if v.byTrainers == nil {
		return nil, fault.E(fault.Unsupported, fault.At("--eval-data"), fault.Var(jobspec.TableOnServers(v.program)), fault.Got("a table that pservers alone hold"),
			fault.Want("tables that trainers hold"), fault.Hint("\"edl run\" evaluates such a program itself"))
	}
	return v.byTrainers, nil
}

// address is that of the listener which is to have the job: the one that a flag names, or that of this machine.
func (f *submitFlags) address(ctx context.Context) (string, error) {
	switch {
	case f.remote != "" && f.find.listener != "" && f.remote != f.find.listener:
		return "", fault.E(fault.InvalidArgument, fault.At("--remote"), fault.Got(fault.Quote(f.remote)+", and another address with --listener"), fault.Want("one of them"))
	case f.remote != "":
		return f.remote, checkAddresses("--remote", f.remote)
	case f.find.listener != "":
		return f.find.listener, checkAddresses("--listener", f.find.listener)
	}
	client, err := f.find.open(ctx, "")
	if err != nil {
		return "", err
	}
	return client.Address(), client.Close()
}

func newAttach(c *console) *cobra.Command {
	f := &findFlags{}
	var every uint64
	var output *choice
	cmd := &cobra.Command{
		Use:   "attach [JOB]",
		Short: "Follow the steps of a job, as \"edl run\" does",
		Long: `Follow the steps of a job of a listener from the first one that the listener still has, as "edl run" does, until it has ended. When this
command is interrupted, the job goes on. Without JOB it is the job that runs, or the one that was started last where none runs.`,
		Example: "  edl attach digits --every 100",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every == 0 {
				return fault.E(fault.InvalidArgument, fault.At("--every"), fault.Got("0"), fault.Want("1 or more"))
			}
			return attachJob(cmd.Context(), c, f, output.value, every, args)
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, inNamespace)
	cmd.Flags().Uint64Var(&every, "every", 10, "report every `N` steps")
	output = outputFlag(cmd)
	return cmd
}

// attachJob shows the steps of a job until it has ended.
func attachJob(ctx context.Context, c *console, f *findFlags, output string, every uint64, args []string) error {
	client, name, err := f.openJob(ctx, args)
	if err != nil {
		return err
	}
	defer client.Close()
	asking, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	j, fetch, err := remote.AttachJob(asking, client, name)
	if err != nil {
		return err
	}
	what := watch{names: fetch, every: every}
	r := newReporter(c, output, what, nil)
	defer r.close()
	result := &means{}
	attempt := 0
	var last outcome
	j.OnEvaluated(func(told *job.Evaluated) error {
		e := evaluationOf(told)
		last.metrics = e.results
		return r.evaluated(e)
	})
	checkpoints := &checkpointNotices{client: client, id: j.ID, to: c.err}
	summary, err := j.Follow(ctx, checkpoints.watch(ctx, func(s executor.StepResult) error {
		if s.Attempt != attempt { // the job has started over
			attempt, *result, last = s.Attempt, means{}, outcome{}
		}
		result.add(fetch, s)
		return r.step(s)
	}))
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), fault.Canceled) {
		fmt.Fprintf(c.err, "job %s goes on; \"edl stop %s\" ends it\n", j.ID, j.ID)
	}
	if err != nil {
		return fellSilent(err)
	}
	checkpoints.look(ctx, true)
	return r.done(summary, result, last)
}
