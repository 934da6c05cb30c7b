package executor

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Train implements Executor.
func (l *Local) Train(ctx context.Context, p *program.Program, run TrainOptions, each func(StepResult) error) (Summary, error) {
	source, err := OpenFiles(ctx, p, run.Data, run.Passes)
	if err != nil {
		return Summary{}, err
	}
	defer source.Close()
	return l.TrainFrom(ctx, p, source, run, each)
}

// TrainFrom is Train on batches that source delivers; run.Data and run.Passes have no effect. A batch without rows, which a trainer meets when
// there are more trainers than rows, runs p from its send_barrier on, and its StepResult has no Fetched. p must not change
// before TrainFrom returns; each may call Run of the same executor.
func (l *Local) TrainFrom(ctx context.Context, p *program.Program, source BatchSource, run TrainOptions,
	each func(StepResult) error) (Summary, error) {
	t := &training{local: l, program: p, run: run, feed: Feed{}}
	if run.Save != "" {
		if err := PrepareSave(run.Save); err != nil {
			return t.summary, err
		}
	}
	start := time.Now()
	err := t.loop(ctx, source, each)
	t.summary.Elapsed = time.Since(start)
	if err == nil && run.Save != "" {
		err = SavePersistables(l.scope, run.Save, p)
	}
	return t.summary, err
}

// training is one call of TrainFrom.
type training struct {
	local     *Local
	program   *program.Program
	run       TrainOptions
	variables []string // that the read op fills
	feed      Feed     // reused by all steps
	plans     []shapedPlan
	summary   Summary
}

func (t *training) loop(ctx context.Context, source BatchSource, each func(StepResult) error) error {
	if t.run.Params != "" {
		if err := LoadParams(t.local.scope, t.run.Params, t.program); err != nil {
			return err
		}
	}
	for {
		batch, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return canceled(ctx, err)
		}
		fetched, err := t.step(ctx, batch)
		if err != nil {
			return err
		}
		t.summary.Passes = max(t.summary.Passes, batch.Pass+1)
		t.summary.Steps++
		t.summary.Records += batch.GlobalRows
		if each == nil {
			continue
		}
		if err := each(StepResult{Pass: batch.Pass, Step: batch.Step.Round, Rows: batch.GlobalRows, Trainers: 1, Fetched: fetched}); err != nil {
			return err
		}
	}
}

// canceled makes the fault of a context that ended out of whatever a source returned because of it.
func canceled(ctx context.Context, err error) error {
	if ctx.Err() == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
}

func (t *training) step(ctx context.Context, batch *Batch) (_ []*tensor.Tensor, err error) {
	if batch.Feed != nil {
		return t.local.RunStep(ctx, t.program, batch.Step, batch.Feed, batch.Fetch...)
	}
	if t.variables == nil {
		if t.variables, err = ReadVariables(t.program); err != nil {
			return nil, err
		}
	}
	if err := t.local.acquire(ctx); err != nil {
		return nil, err
	}
	defer t.local.release()
	compiled, err := t.planFor(ctx, batch)
	if err != nil {
		return nil, err
	}
	if batch.Step.Rows == 0 {
		return nil, t.local.emptyStep(ctx, compiled, batch.Step)
	}
	for i, name := range t.variables {
		t.feed[name] = batch.Tensors[i]
	}
	return compiled.Fetched(), t.local.step(ctx, compiled, t.feed, batch.Step)
}
