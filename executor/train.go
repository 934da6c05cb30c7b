package executor

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
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

// maxShapes is how many batch shapes keep a plan: the full batch, the last one of a pass, and what splitting over trainers makes of
// both.
const maxShapes = 4

// A shapedPlan is a plan with the rows that its batches have.
type shapedPlan struct {
	rows int64
	plan *plan.Plan
}

// planFor returns the plan for the shapes of a batch. For a batch without rows any plan serves.
func (t *training) planFor(ctx context.Context, batch *Batch) (*plan.Plan, error) {
	rows := batch.Step.Rows
	for i, have := range t.plans {
		if have.rows == rows || rows == 0 {
			return t.plans[i].plan, nil
		}
	}
	if rows > 0 {
		if err := batch.check(t.variables); err != nil {
			return nil, err
		}
	}
	shapes, err := t.shapes(batch)
	if err != nil {
		return nil, err
	}
	compiled, err := t.local.compile(ctx, t.program, shapes, t.run.Fetch)
	if err != nil {
		return nil, err
	}
	if len(t.plans) == maxShapes {
		t.plans = slices.Delete(t.plans, 0, 1)
	}
	t.plans = append(t.plans, shapedPlan{max(rows, 1), compiled})
	return compiled, nil
}

// shapes describes the variables that are read: as they are in batch, or with one row when it has none.
func (t *training) shapes(batch *Batch) (map[string]ops.Meta, error) {
	feed := Feed{}
	for i, name := range t.variables {
		if batch.Step.Rows > 0 {
			feed[name] = batch.Tensors[i]
			continue
		}
		declared, ok := t.program.Global().Find(name)
		if !ok || len(declared.Dims) == 0 {
			return nil, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("no declaration with rows"),
				fault.Want("a declared batch variable"))
		}
		dims := slices.Clone(declared.Dims)
		dims[0] = 1
		row, err := tensor.New(declared.DType, dims...)
		if err != nil {
			return nil, err
		}
		feed[name] = row
	}
	return shapesOf(feed)
}
