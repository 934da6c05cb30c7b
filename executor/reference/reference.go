// Package reference is the oracle of the law that splitting work over machines changes no result: it computes on one machine what a
// synchronous job of N trainers must compute, and knows nothing of how such a job is built.
//
// A round takes one batch. The forward and backward ops run once for each trainer, in the order of ranks, on rows
// [rows*t/N, rows*(t+1)/N) of it; then every gradient that the update reads is merged by the rule that the loss
// asks for (ops.GradientMerge), state that the forward pass updates is merged as its op says (ops.Def.State), and the update
// ops run once. Which op is which follows from its role: those of the learning-rate schedule and of optimizers are the
// update. A remote job with N trainers must equal it bit for bit, and with N = 1 it equals executor.Local.
package reference

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Executor runs one program as N trainers would.
type Executor struct {
	program  *program.Program
	trainers func(round uint64) int
	shared   int // trainers of the last round
	local    *executor.Local
	split    *split
	round    uint64
	forward  map[request]*executor.Prepared
	update   map[request]*executor.Prepared
}

// A request is what a prepared half of the program was made for.
type request struct {
	shapes, fetch string
}

var _ executor.Executor = (*Executor)(nil)

// New returns the oracle of p, which must not change any more, for a number of trainers. The options are those of the local executor inside.
func New(p *program.Program, trainers int, options ...executor.Option) (*Executor, error) {
	if trainers < 1 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d trainers", trainers), fault.Want("at least 1"))
	}
	if err := ops.Verify(p, program.StageLocal); err != nil {
		return nil, err
	}
	s, err := splitByRole(p)
	if err != nil {
		return nil, err
	}
	return &Executor{program: p, trainers: func(uint64) int { return trainers }, local: executor.New(options...), split: s,
		forward: map[request]*executor.Prepared{}, update: map[request]*executor.Prepared{}}, nil
}

// Vary lets the number of trainers differ from round to round, as it does in a job whose members come and go. of is called once for each round,
// before it, and returns at least 1.
func (e *Executor) Vary(of func(round uint64) int) { e.trainers = of }

// Scope returns the variables that live from round to round.
func (e *Executor) Scope() *executor.Scope { return e.local.Scope() }

// Save implements executor.Executor.
func (e *Executor) Save(ctx context.Context, dir string, p *program.Program) error {
	return e.local.Save(ctx, dir, p)
}

// Load implements executor.Executor.
func (e *Executor) Load(ctx context.Context, from string, p *program.Program, options executor.LoadOptions) (executor.LoadReport, error) {
	return e.local.Load(ctx, from, p, options)
}

// Close implements executor.Executor.
func (e *Executor) Close() error { return e.local.Close() }

// Run implements executor.Executor: one round. p must be the program that the Executor was made for.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := e.check(p); err != nil {
		return nil, err
	}
	return e.runRound(ctx, feed, fetch)
}

func (e *Executor) check(p *program.Program) error {
	if p == e.program {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got("another program"), fault.Want("the one that the reference executor was made for"))
}

// Train implements executor.Executor. Every batch of the files is a round.
func (e *Executor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	if err := e.check(p); err != nil {
		return executor.Summary{}, err
	}
	source, err := executor.OpenFiles(ctx, p, run.Data, run.Passes)
	if err != nil {
		return executor.Summary{}, err
	}
	defer source.Close()
	if run.Save != "" {
		if err := executor.PrepareSave(run.Save); err != nil {
			return executor.Summary{}, err
		}
	}
	if run.Params != "" {
		if err := executor.LoadParams(e.Scope(), run.Params, p); err != nil {
			return executor.Summary{}, err
		}
	}
	start := time.Now()
	summary, err := e.rounds(ctx, source, run.Fetch, each)
	summary.Elapsed = time.Since(start)
	if err == nil && run.Save != "" {
		err = executor.SavePersistables(e.Scope(), run.Save, p)
	}
	return summary, err
}

func (e *Executor) rounds(ctx context.Context, source executor.BatchSource, fetch []string,
	each func(executor.StepResult) error) (executor.Summary, error) {
	var summary executor.Summary
	variables, err := executor.ReadVariables(e.program)
	if err != nil {
		return summary, err
	}
	for {
		batch, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return summary, nil
		}
		if err != nil {
			return summary, err
		}
		feed := executor.Feed{}
		for i, name := range variables {
			feed[name] = batch.Tensors[i]
		}
		fetched, err := e.runRound(ctx, feed, fetch)
		if err != nil {
			return summary, err
		}
		summary.Passes = max(summary.Passes, batch.Pass+1)
		summary.Steps++
		summary.Records += batch.GlobalRows
		if each == nil {
			continue
		}
		if err := each(executor.StepResult{Pass: batch.Pass, Step: batch.Step.Round, Rows: batch.GlobalRows, Trainers: e.shared,
			Fetched: fetched}); err != nil {
			return summary, err
		}
	}
}
