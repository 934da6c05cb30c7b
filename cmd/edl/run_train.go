package main

import (
	"context"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

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
