// Package reference is the oracle of the law that splitting work over machines changes no result: it computes on one machine what a
// synchronous job of N trainers must compute, and knows nothing of how such a job is built.
//
// A round takes one batch. The forward and backward ops run once for each trainer, in the order of ranks, on rows
// [rows*t/N, rows*(t+1)/N) of it; then every gradient that the update reads is merged by the rule that the loss
// asks for (ops.GradientMerge), state that the forward pass updates is merged as its op says (ops.Def.State), and the update
// ops run once. Which op is which follows from its role: those of the learning-rate schedule and of optimizers are the
// update. A remote job with N trainers must equal it bit for bit, and with N = 1 it equals executor.Local.
//
// Compress makes it the oracle of a job that compresses: each rank's gradients are rounded before they merge, and the forward half runs with rounded
// parameters. The state has the parameters as the update computes them. With topk each rank has a residual for each gradient, and selects from each
// slice of a gradient by itself. So Slice says how gradients are cut, and Regroup when generations begin, whose residuals are 0.
//
// Rhythm makes it the oracle of an async job of one trainer that does not push and pull in every step.
//
// Devices divides the rows of each trainer further.
//
// Where trainers form groups, as those of one host do in a job with merge_hosts, each group is merged first, and then the groups. See Group.
package reference

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Executor runs programs as N trainers would. A program must not change once it was run.
type Executor struct {
	trainers func(round uint64) int
	groups   func(round uint64) [][]int // nil: each trainer is a group of its own
	devices  func(round uint64) int     // of each trainer; nil: 1
	drops    func(round uint64) []int   // nil: every contribution counts
	shared   int                        // trainers of the last round
	finite   bool                       // a fetched value that is not finite fails the round
	grads    compress.Form              // of gradients on their way to the merge
	slices   func(gradient string) []int64
	begins   func(round uint64) bool
	residual map[residualOf]*tensor.Tensor
	forms    forms
	params   compress.Form // of parameters on their way to the forward half

	pushEvery, pullEvery int       // of Rhythm; 0: 1
	unpushed             *unpushed // of a Train with a Rhythm; else nil

	local    *executor.Local
	splits   splits
	prepared prepared
	callback atomic.Bool // the callback of Train runs
	closed   atomic.Bool
}

var _ executor.Executor = (*Executor)(nil)

// New returns the oracle of p, and of programs that share variables with it, for a number of trainers. More than one divide each batch, so a program
// that mixes its rows is refused then. The options are those of the local executor inside.
func New(p *program.Program, trainers int, options ...executor.Option) (*Executor, error) {
	if trainers < 1 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d trainers", trainers), fault.Want("at least 1"))
	}
	e := &Executor{trainers: func(uint64) int { return trainers }, splits: splits{}, prepared: prepared{}}
	s, err := e.splits.of(p, sharesTotals(e))
	if err == nil && trainers > 1 {
		err = s.indivisible
	}
	if err != nil {
		return nil, err
	}
	e.local = executor.New(options...)
	return e, nil
}

// Vary lets the number of trainers differ from round to round, as it does in a job whose members come and go. of is called once for each round,
// before it, and returns at least 1.
func (e *Executor) Vary(of func(round uint64) int) { e.trainers = of }

// Devices lets each trainer divide its rows among devices. of is called for each round, and returns how many, at least 1. What they compute is merged first, in the order of devices: gradients, state,
// and what is fetched. So N trainers with d devices compute what N x d trainers do whose merges are grouped by trainer. Compression comes after that merge, and
// groups are groups of trainers. A program that does not train is not divided among devices.
func (e *Executor) Devices(of func(round uint64) int) { e.devices = of }

// Group lets trainers merge in groups. of is called once for each round, and returns the groups of that round: positions of trainers from 0 on,
// ascending within a group and by the first of each group. A trainer that no group names is a group of its own, in its place by position.
func (e *Executor) Group(of func(round uint64) [][]int) { e.groups = of }

// Drop lets rounds lack contributions, as they do in a job with backup trainers. of is called once for each round that trains, and returns the trainers,
// by position, whose rows do not count in it; those of one of the others must. What the round computes and fetches is that of the rows that count. Who
// drops rows feeds them again in a later round: the batches of a job are in its steps.
func (e *Executor) Drop(of func(round uint64) []int) { e.drops = of }

// CheckFinite makes a round that trains fail if a trainer has computed a fetched value of type float32 that is not finite. Executors check more: also a
// loss that is not fetched. Programs that drop gradients which are not finite are not checked. By default the oracle checks nothing.
func (e *Executor) CheckFinite() { e.finite = true }

// Compress makes gradients and parameters travel as a job of these settings sends them: none, bf16 or fp16, and topk for gradients. A parameter that is
// fetched is then as trainers have it.
func (e *Executor) Compress(gradients, parameters string) (err error) {
	if e.grads, err = compress.ParseGradients(gradients); err != nil {
		return err
	}
	e.params, err = compress.ParseParameters(parameters)
	return err
}

// Slice says how many rows of a gradient are in each slice, in order; nil for one that is sent as it is. Only topk depends on it. By default each gradient
// is one slice.
func (e *Executor) Slice(rows func(gradient string) []int64) { e.slices = rows }

// Regroup says whether a generation begins with a round. Only topk depends on it: the residuals of a generation begin with 0. By default one begins with
// each call of Train, with a Run after it, after Load, and where the number of trainers changes.
func (e *Executor) Regroup(at func(round uint64) bool) { e.begins = at }

// Scope returns the variables that live from round to round.
func (e *Executor) Scope() *executor.Scope { return e.local.Scope() }

// Progress returns how far training is.
func (e *Executor) Progress() executor.Progress { return e.local.Progress() }

// Save implements executor.Executor.
func (e *Executor) Save(ctx context.Context, dir string, p *program.Program) error {
	return e.local.Save(ctx, dir, p)
}

// Load implements executor.Executor.
func (e *Executor) Load(ctx context.Context, from string, p *program.Program, options executor.LoadOptions) (executor.LoadReport, error) {
	if e.callback.Load() {
		return executor.LoadReport{}, executor.RefuseInCallback("Load")
	}
	e.residual = nil
	return e.local.Load(ctx, from, p, options)
}

// Close implements executor.Executor.
func (e *Executor) Close() error {
	e.closed.Store(true)
	return e.local.Close()
}

// Run implements executor.Executor: one round.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := executor.CheckProgram(p); err != nil {
		return nil, err
	}
	if e.callback.Load() && executor.Trains(p) {
		return nil, executor.RefuseInCallback("Run of a program that trains")
	}
	s, err := e.splits.of(p, sharesTotals(e))
	if err != nil {
		return nil, err
	}
	if !s.trains() {
		restore, err := keep(ctx, e, s)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	return e.runRound(ctx, s, e.local.Progress().Steps, feed, fetch)
}

// Train implements executor.Executor. Every batch of the files is a round.
func (e *Executor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	if err := executor.CheckProgram(p); err != nil {
		return executor.Summary{}, err
	}
	if e.callback.Load() {
		return executor.Summary{}, executor.RefuseInCallback("Train")
	}
	s, err := e.splits.of(p, sharesTotals(e))
	if err != nil {
		return executor.Summary{}, err
	}
	if err := executor.CheckRun(p, run); err != nil {
		return executor.Summary{}, err
	}
	source, err := executor.OpenFiles(ctx, p, run.Data, run.Passes)
	if err != nil {
		return executor.Summary{}, err
	}
	defer source.Close()
	if run.Save != "" {
		if err := executor.PrepareSave(run.Save, p); err != nil {
			return executor.Summary{}, err
		}
	}
	if run.Params != "" {
		if _, err := e.Load(ctx, run.Params, p, executor.LoadOptions{}); err != nil {
			return executor.Summary{}, err
		}
	}
	start := time.Now()
	var summary executor.Summary
	if s.trains() {
		summary, err = e.train(ctx, p, s, source, run.Fetch, each)
	} else {
		summary, err = evaluate(ctx, e, s, source, run.Fetch, each)
	}
	summary.Elapsed = time.Since(start)
	if err == nil && run.Save != "" {
		err = e.Save(ctx, run.Save, p)
	}
	return summary, err
}

// train goes on where the training before it stopped, if both read their data in the same way.
func (e *Executor) train(ctx context.Context, p *program.Program, s *split, source *executor.FileSource, fetch []string,
	each func(executor.StepResult) error) (executor.Summary, error) {
	now := e.local.Progress()
	if now.Reader != executor.ReaderHash(p) {
		now = executor.Progress{Steps: now.Steps}
	}
	source.GoOn(now)
	e.residual = nil
	if e.pushEvery > 1 || e.pullEvery > 1 {
		e.unpushed = &unpushed{pushEvery: e.pushEvery, pullEvery: e.pullEvery, sums: map[string]*tensor.Tensor{}}
	}
	defer func() { e.residual, e.unpushed = nil, nil }()
	summary, err := e.rounds(ctx, s, source, fetch, each, e.runRound, func() {
		e.local.SetProgress(source.Position(e.local.Progress().Steps))
	})
	if err == nil {
		err = e.unpushed.settle(ctx, -1)
	}
	return summary, err
}

// evaluate runs a program that does not train. A round goes on with what the round before has written. While the callback runs, the variables have the
// values of the state.
func evaluate(ctx context.Context, e *Executor, s *split, source executor.BatchSource, fetch []string,
	each func(executor.StepResult) error) (executor.Summary, error) {
	var before map[string]*tensor.Tensor // what was written, by the rounds so far
	run := func(ctx context.Context, s *split, number uint64, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
		restore, err := keep(ctx, e, s)
		if err != nil {
			return nil, err
		}
		defer restore()
		if err := e.restore(before); err != nil {
			return nil, err
		}
		fetched, err := e.runRound(ctx, s, number, feed, fetch)
		before = written(e, s)
		return fetched, err
	}
	return e.rounds(ctx, s, source, fetch, each, run, func() {})
}

// runner runs one round and returns the fetched variables.
type runner func(ctx context.Context, s *split, number uint64, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error)

// rounds runs a round for each batch, and calls moved after each, and at the end.
func (e *Executor) rounds(ctx context.Context, s *split, source executor.BatchSource, fetch []string, each func(executor.StepResult) error,
	run runner, moved func()) (executor.Summary, error) {
	var summary executor.Summary
	variables, err := executor.ReadVariables(s.program)
	if err != nil {
		return summary, err
	}
	first := 0
	for {
		batch, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			moved()
			return summary, nil
		}
		if err != nil {
			return summary, err
		}
		feed := executor.Feed{}
		for i, name := range variables {
			feed[name] = batch.Tensors[i]
		}
		if err := e.unpushed.settle(ctx, batch.Pass); err != nil {
			return summary, err
		}
		if s.trains() {
			batch.Step.Round = e.local.Progress().Steps
		}
		fetched, err := run(ctx, s, batch.Step.Round, feed, fetch)
		if err != nil {
			return summary, err
		}
		moved()
		if summary.Steps == 0 {
			first = batch.Pass
		}
		summary.Passes = batch.Pass - first + 1
		summary.Steps++
		summary.Records += batch.GlobalRows
		if each == nil {
			continue
		}
		err = tell(e, each, executor.StepResult{Pass: batch.Pass, Step: batch.Step.Round, Rows: batch.GlobalRows, Trainers: e.shared, Fetched: fetched})
		if errors.Is(err, executor.ErrStop) {
			summary.Stopped = true
			return summary, nil
		}
		if err != nil {
			return summary, err
		}
	}
}

// tell calls the callback. Other calls see meanwhile that it runs.
func tell(e *Executor, each func(executor.StepResult) error, s executor.StepResult) error {
	e.callback.Store(true)
	defer e.callback.Store(false)
	err := each(s)
	if e.closed.Load() {
		return executor.ClosedInCallback()
	}
	return err
}
