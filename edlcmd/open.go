package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A place is where a program runs.
type place struct {
	remote    bool
	address   string            // of a listener; empty: an embedded cluster of processes on this machine
	binary    string            // of these processes; empty: this one
	settings  settings          // has the launchers
	launcher  *choice           // of one of these; nil: child processes
	etcd      []remote.Option   // of the embedded cluster; none: its own etcd
	endpoints []string          // of that etcd
	access    cluster.Access    // to that etcd
	profile   *executor.Profile // of what runs on this machine; nil: none
	trace     *traceFile        // gets the trace of a run; nil: none
	memory    int64             // MiB that a plan on this machine may take; 0: what is free
	keep      bool              // the state of a job is read when it has ended
	notices   io.Writer         // gets the name of the job and the address of its listener; nil: no output
}

// openExecutor returns what runs programs as spec describes it. It is the one place where a run becomes local or remote.
func openExecutor(where place, spec *job.JobSpec) (executor.Executor, error) {
	if where.remote {
		return openRemote(where, spec)
	}
	options := localOptions(spec)
	if where.memory > 0 {
		options = append(options, executor.WithMemory(min(where.memory, 1<<40)<<20))
	}
	if where.profile != nil {
		options = append(options, executor.WithProfile(where.profile))
	}
	if where.notices != nil {
		options = append(options, executor.WithLogger(slog.New(slog.NewTextHandler(where.notices, &slog.HandlerOptions{Level: ops.LevelPrint}))))
	}
	return executor.New(options...), nil
}

func localOptions(spec *job.JobSpec) []executor.Option {
	options := []executor.Option{executor.WithWorkers(int(spec.Workers)), executor.WithDayRounds(spec.DayRounds)}
	if spec.NoFiniteCheck {
		options = append(options, executor.WithoutFiniteCheck())
	}
	return options
}

// openRemote starts an embedded cluster whose roles are processes, or connects to a listener.
func openRemote(where place, spec *job.JobSpec) (executor.Executor, error) {
	launcher, err := where.settings.launcherOf(where.launcher, where.binary, where.access)
	if err != nil {
		return nil, err
	}
	options := append(where.etcd, remote.WithLauncher(launcher))
	if where.notices != nil {
		options = append(options, remote.WithNotice(func(text string) { fmt.Fprintln(where.notices, "edl:", text) }))
	}
	if where.address == "" {
		own, err := ownAuthority()
		if err != nil {
			return nil, err
		}
		options = append(options, own...)
	}
	e, err := remote.NewExecutor(where.address, spec, options...)
	if err != nil {
		return nil, unanswered(where.endpoints, err)
	}
	opened := &clusterExecutor{Executor: e, notices: where.notices, trace: where.trace, keep: where.keep, withdraw: func() {}}
	if where.address == "" {
		opened.withdraw = announce(e.Client().Address())
	}
	return opened, nil
}

// ownAuthority makes an embedded listener take the user's authority, so that other commands of the user may ask it. Without a place for the
// file only this process knows the listener. A file that is wrong is an error.
func ownAuthority() ([]remote.Option, error) {
	file, err := credential.File()
	if err != nil {
		return nil, nil
	}
	a, err := credential.OpenOrMake(file)
	if err == nil {
		return []remote.Option{remote.WithAuthority(a)}, nil
	}
	if _, absent := os.Stat(file); absent != nil {
		return nil, nil
	}
	return nil, err
}

// clusterExecutor is a remote executor whose listener other commands find.
type clusterExecutor struct {
	*remote.Executor
	notices  io.Writer
	trace    *traceFile // gets the trace of each job; nil: none
	withdraw func()
	loaded   bool // a state was loaded
	keep     bool // the state that a job leaves is read when it has ended
}

// Load implements executor.Executor. What is loaded is the state that Train then begins with.
func (e *clusterExecutor) Load(ctx context.Context, from string, p *program.Program, options executor.LoadOptions) (executor.LoadReport, error) {
	report, err := e.Executor.Load(ctx, from, p, options)
	e.loaded = e.loaded || err == nil
	return report, err
}

// Train implements executor.Executor, and prints the name of the job, and whether its checkpoints fail. Without a loaded state the job begins with run.Params or initial values, also
// one that evaluates.
func (e *clusterExecutor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (s executor.Summary, err error) {
	var id string
	var saves atomic.Pointer[string]
	ctx, release := e.untilSaved(ctx, &saves)
	defer release()
	checkpoints := &checkpointNotices{client: e.Client(), to: e.notices}
	each = checkpoints.watch(ctx, each)
	submitted := func(job string) {
		id, checkpoints.id = job, job
		saves.Store(&job)
		if e.notices != nil {
			fmt.Fprintf(e.notices, "job %s on the listener at %s\n", id, e.Client().Address())
		}
	}
	if e.loaded || e.keep {
		e.OnSubmit(submitted)
		s, err = e.Executor.Train(ctx, p, run, each)
	} else {
		j, failed := e.Submit(ctx, p, run)
		if failed != nil {
			return s, failed
		}
		submitted(j.ID)
		s, err = j.Follow(ctx, each)
	}
	if e.trace != nil && id != "" {
		e.trace.written, e.trace.err = writeTrace(ctx, e.trace, e.notices, e.Client(), id, err)
	}
	if err == nil && e.notices != nil && id != "" {
		e.tellDiscarded(ctx, id)
		checkpoints.look(ctx, true)
	}
	return s, fellSilent(err)
}

// lastTime bounds the last checkpoint of a run that is terminated.
const lastTime = 15 * time.Second

// untilSaved returns a context that ends after ctx. When that ends by SIGTERM, the job makes a last checkpoint before, if it makes any. The caller calls
// release at its end.
func (e *clusterExecutor) untilSaved(ctx context.Context, id *atomic.Pointer[string]) (until context.Context, release func()) {
	until, end := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		defer end(context.Cause(ctx))
		name := id.Load()
		if name == nil || e.notices == nil || !errors.Is(context.Cause(ctx), fault.Drained) {
			return
		}
		err := saveJob(context.WithoutCancel(ctx), e.notices, e.Client(), *name, lastTime)
		if err != nil && !errors.Is(err, fault.InvalidArgument) { // which says that it makes none
			fmt.Fprintf(e.notices, "edl: job %s ends without a last checkpoint: %s\n", *name, oneLine(err.Error()))
		}
	})
	return until, func() {
		if !stop() {
			<-done
		}
		end(nil)
	}
}

// tellDiscarded prints which records were left out. If the listener does not answer any more, it prints nothing.
func (e *clusterExecutor) tellDiscarded(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d, err := e.Client().Show(ctx, id)
	if err != nil {
		return
	}
	for _, q := range d.Queues.GetQueues() {
		if len(q.DiscardedTasks) == 0 {
			continue
		}
		first := q.DiscardedTasks[0]
		fmt.Fprintf(e.notices, "edl: dataset %s: %d tasks were discarded, and their records left out; the first: %s\n", fault.Quote(q.Dataset),
			q.Discarded, oneLine(first.Reason))
	}
}

func (e *clusterExecutor) Close() error {
	e.withdraw()
	return e.Executor.Close()
}

// closeExecutor ends an executor at the end of a command, whose error it may become.
func closeExecutor(e executor.Executor, err *error) {
	if closed := e.Close(); *err == nil {
		*err = closed
	}
}

// runTrain is one run of a self-reading program to its end.
func runTrain(ctx context.Context, where place, spec *job.JobSpec, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (s executor.Summary, err error) {
	e, err := openExecutor(where, spec)
	if err != nil {
		return s, err
	}
	defer closeExecutor(e, &err)
	run.Params = spec.Params
	return e.Train(ctx, p, run, each)
}

// etcdFlags name a real etcd cluster. There is no flag for the password: arguments of a process are shown to everybody.
type etcdFlags struct {
	endpoints []string
	access    cluster.Access
}

func (f *etcdFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.endpoints, "etcd", nil, "etcd cluster at `URL,...` (default: one inside of this process)")
	flags.StringVar(&f.access.CA, "etcd-ca", "", "`FILE` of certificates that sign those of etcd's servers")
	flags.StringVar(&f.access.Certificate, "etcd-cert", "", "`FILE` of the certificate to show to etcd")
	flags.StringVar(&f.access.Key, "etcd-key", "", "`FILE` of its key")
	flags.StringVar(&f.access.User, "etcd-user", "", "user `NAME` of etcd; the password is in the environment as "+cluster.EnvPassword)
}

// accessFlags are the flags with user and certificates for etcd.
var accessFlags = append([]string{"etcd-user"}, etcdTLSFlags...)

// options checks the flags and returns what they mean to a listener.
func (f *etcdFlags) options(flags *pflag.FlagSet, c *console) ([]remote.Option, error) {
	if len(f.endpoints) == 0 {
		f.access = cluster.Access{} // the etcd inside of this process needs none
		return nil, refuseIdle(flags, accessFlags, "the etcd inside of this process, which has no users and no TLS", "it together with --etcd URL,...")
	}
	a := &f.access
	if a.User != "" {
		a.Password, _ = c.env(cluster.EnvPassword)
	}
	for _, path := range []*string{&a.CA, &a.Certificate, &a.Key} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, fileFault(*path, err)
		}
		*path = absolute
	}
	if err := a.Check(f.endpoints); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(f.endpoints[0], "https://") {
		if err := refuseIdle(flags, etcdTLSFlags, "endpoints without TLS", "--etcd https://HOST:PORT,..."); err != nil {
			return nil, err
		}
	}
	return []remote.Option{remote.WithEtcd(f.endpoints...), remote.WithEtcdAccess(*a)}, nil
}

// checkAddress refuses what is no address, before a connection waits for an answer.
func checkAddress(flag, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fault.E(fault.InvalidArgument, fault.At(flag), fault.Got(fault.Quote(address)), fault.Want("HOST:PORT, such as 127.0.0.1:7164"))
	}
	return nil
}

// checkAddresses is checkAddress for one address, or several separated by commas.
func checkAddresses(flag, list string) error {
	for address := range strings.SplitSeq(list, ",") {
		if err := checkAddress(flag, address); err != nil {
			return err
		}
	}
	return nil
}

// unanswered adds what to do to the error of a listener or of an etcd cluster that does not answer. endpoints are those of the cluster, none for an
// embedded one.
func unanswered(endpoints []string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unavailable && f.Kind != fault.DeadlineExceeded || f.Hint != "" {
		return err
	}
	known := *f
	switch {
	case strings.HasPrefix(f.Where, "listener"):
		known.Hint = "start one there with \"edl listen\", or name the address of another"
	case strings.HasPrefix(f.Where, "etcd") && len(endpoints) > 0:
		if f.Where == "etcd" {
			known.Where = "etcd at " + strings.Join(endpoints, ", ")
		}
		known.Hint = "start an etcd server there, or name others with --etcd"
	default:
		return err
	}
	return &known
}

// fellSilent adds a hint to the error of a listener that has stopped answering.
func fellSilent(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Hint != "" || !strings.HasPrefix(f.Where, "listener") {
		return err
	}
	known := *f
	known.Hint = "it has answered before: its process may be paused or gone, or its machine out of reach"
	return &known
}
