package main

import (
	"context"
	"fmt"
	"io"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
)

// A place is where a program runs.
type place struct {
	remote    bool
	address   string            // of a listener; empty: an embedded cluster of processes on this machine
	binary    string            // of these processes; empty: this one
	etcd      []remote.Option   // of the embedded cluster; none: its own etcd
	endpoints []string          // of that etcd
	access    cluster.Access    // to that etcd
	profile   *executor.Profile // of what runs on this machine; nil: none
	told      io.Writer         // is told the name of the job and where its listener is; nil: nobody
}

// openExecutor returns what runs programs as spec describes it. It is the one place where a run becomes local or remote.
func openExecutor(where place, spec *job.JobSpec) (executor.Executor, error) {
	if where.remote {
		return openRemote(where, spec)
	}
	options := localOptions(spec)
	if where.profile != nil {
		options = append(options, executor.WithProfile(where.profile))
	}
	return executor.New(options...), nil
}

func localOptions(spec *job.JobSpec) []executor.Option {
	options := []executor.Option{executor.WithWorkers(int(spec.Workers))}
	if spec.NoFiniteCheck {
		options = append(options, executor.WithoutFiniteCheck())
	}
	return options
}

// openRemote starts an embedded cluster whose roles are processes, or connects to a listener.
func openRemote(where place, spec *job.JobSpec) (executor.Executor, error) {
	launcher, err := childProcesses(where.binary, where.access)
	if err != nil {
		return nil, err
	}
	e, err := remote.NewExecutor(where.address, spec, append(where.etcd, remote.WithLauncher(launcher))...)
	if err != nil {
		return nil, unanswered(where.endpoints, err)
	}
	opened := clusterExecutor{Executor: e, told: where.told, withdraw: func() {}}
	if where.address == "" {
		opened.withdraw = announce(e.Client().Address())
	}
	return opened, nil
}

// clusterExecutor is a remote executor whose listener other commands find.
type clusterExecutor struct {
	*remote.Executor
	told     io.Writer
	withdraw func()
}

// Train implements executor.Executor, and tells what to call the job.
func (e clusterExecutor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	j, err := e.Submit(ctx, p, run)
	if err != nil {
		return executor.Summary{}, err
	}
	if e.told != nil {
		fmt.Fprintf(e.told, "job %s on the listener at %s\n", j.ID, e.Client().Address())
	}
	s, err := j.Follow(ctx, each)
	if err == nil && e.told != nil {
		e.tellDiscarded(ctx, j.ID)
	}
	return s, fellSilent(err)
}

// tellDiscarded says which records were left out. Where it cannot be asked any more, "edl jobs show" still tells.
func (e clusterExecutor) tellDiscarded(ctx context.Context, id string) {
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
		fmt.Fprintf(e.told, "edl: dataset %s: %d tasks were given up, and their records left out; the first: %s\n", fault.Quote(q.Dataset),
			q.Discarded, oneLine(first.Reason))
	}
}

func (e clusterExecutor) Close() error {
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
