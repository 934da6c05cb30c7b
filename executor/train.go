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

// Trains reports whether p changes the state when it runs: whether it has update ops.
func Trains(p *program.Program) bool {
	return slices.ContainsFunc(p.Global().Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleOptimize) })
}

// Train implements Executor.
func (l *Local) Train(ctx context.Context, p *program.Program, run TrainOptions, each func(StepResult) error) (Summary, error) {
	if err := l.lock.checkCall(p); err != nil {
		return Summary{}, err
	}
	if err := l.lock.checkCallback("Train"); err != nil {
		return Summary{}, err
	}
	if err := CheckRun(p, run); err != nil {
		return Summary{}, err
	}
	source, err := OpenFiles(ctx, p, run.Data, run.Passes)
	if err != nil {
		return Summary{}, err
	}
	defer source.Close()
	t := &training{local: l, program: p, run: run, feed: Feed{}, source: source}
	if Trains(p) {
		t.files, t.reader = source, ReaderHash(p)
	}
	return t.all(ctx, each)
}

// TrainFrom is Train on batches that source delivers, with the numbers of their steps; run.Data and run.Passes have no effect. A batch without rows,
// which a trainer meets when there are more trainers than rows, runs p from its send_barrier on, and its StepResult has no Fetched. p must not change
// before TrainFrom returns.
func (l *Local) TrainFrom(ctx context.Context, p *program.Program, source BatchSource, run TrainOptions,
	each func(StepResult) error) (Summary, error) {
	if err := l.lock.checkCallback("TrainFrom"); err != nil {
		return Summary{}, err
	}
	t := &training{local: l, program: p, run: run, feed: Feed{}, source: source}
	return t.all(ctx, each)
}

// training is one call of Train or TrainFrom.
type training struct {
	local     *Local
	program   *program.Program
	run       TrainOptions
	source    BatchSource
	files     *FileSource // source, when the position in it is part of the state; else nil
	reader    string      // hash of the reader of files
	variables []string    // that the read op fills
	feed      Feed        // reused by all steps
	plans     []shapedPlan
	kept      *plan.Plan       // of a program that does not train: it has what the steps have written, while no step runs; nil before the first one
	fetched   []*tensor.Tensor // by that program: reused by all steps
	first     int              // pass of the first batch
	summary   Summary
}

// all is the whole call, from loading to saving.
func (t *training) all(ctx context.Context, each func(StepResult) error) (Summary, error) {
	l := t.local
	if err := l.lock.beginTraining(ctx, "waiting for the end of another Train or Load of this executor"); err != nil {
		return t.summary, err
	}
	defer l.lock.endTraining()
	if t.run.Save != "" {
		if err := CheckNames(t.program); err != nil {
			return t.summary, err
		}
		if err := PrepareSave(t.run.Save, t.program); err != nil {
			return t.summary, err
		}
	}
	if err := t.begin(ctx); err != nil {
		return t.summary, err
	}
	start := time.Now()
	err := t.loop(ctx, each)
	t.summary.Elapsed = time.Since(start)
	if err == nil && t.run.Save != "" {
		err = RetrySave(ctx, func() error { return l.Save(ctx, t.run.Save, t.program) }, func(err error, pause time.Duration) {
			l.log.Warn("the trained state cannot be saved yet", "error", err, "next try after", pause)
		})
	}
	return t.summary, err
}

// begin brings the executor to the state that the first step needs, and the source to the position of that state.
func (t *training) begin(ctx context.Context) error {
	l := t.local
	if err := l.lock.acquire(ctx); err != nil {
		return err
	}
	defer l.lock.release()
	if t.run.Params != "" {
		if _, err := l.load(ctx, t.run.Params, t.program, LoadOptions{}); err != nil {
			return err
		}
	}
	if t.files != nil && l.stepper.progress.Reader == t.reader {
		t.files.GoOn(l.stepper.progress)
	}
	return nil
}

func (t *training) loop(ctx context.Context, each func(StepResult) error) error {
	for {
		batch, err := t.source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return t.at(ctx)
		}
		if err != nil {
			return canceled(ctx, err)
		}
		fetched, err := t.step(ctx, batch)
		if err != nil {
			return err
		}
		if t.summary.Steps == 0 {
			t.first = batch.Pass
		}
		t.summary.Passes = batch.Pass - t.first + 1
		t.summary.Steps++
		t.summary.Records += batch.GlobalRows
		if each == nil {
			continue
		}
		err = t.local.lock.tell(each, StepResult{Pass: batch.Pass, Step: batch.Step.Round, Rows: batch.GlobalRows, Trainers: 1, Fetched: fetched})
		if errors.Is(err, ErrStop) {
			t.summary.Stopped = true
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// at makes the position behind the last pass part of the state.
func (t *training) at(ctx context.Context) error {
	if t.files == nil {
		return nil
	}
	if err := t.local.lock.acquire(ctx); err != nil {
		return err
	}
	defer t.local.lock.release()
	t.moved()
	return nil
}

// moved makes the position of the source part of the state.
func (t *training) moved() {
	t.local.stepper.progress = t.files.Position(t.local.stepper.progress.Steps)
}

// evaluate runs a step of a program that does not train. Between two steps, when others may read the state, the variables have the values of the state:
// what the steps write is put aside, and the next step goes on with it.
func (t *training) evaluate(ctx context.Context, compiled *plan.Plan, step ops.Step) ([]*tensor.Tensor, error) {
	if t.kept == nil {
		t.kept = compiled
		compiled.Keep()
	} else {
		t.kept.Swap()
	}
	err := t.local.stepper.run(ctx, compiled, t.feed, step)
	t.kept.Swap()
	if err != nil {
		return nil, err
	}
	t.fetched = t.fetched[:0]
	for _, v := range compiled.Fetched() {
		t.fetched = append(t.fetched, t.kept.Aside(v))
	}
	return t.fetched, nil
}

// canceled makes the fault of a context that ended out of whatever a source returned because of it.
func canceled(ctx context.Context, err error) error {
	if ctx.Err() == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
}

func (t *training) step(ctx context.Context, batch *Batch) (_ []*tensor.Tensor, err error) {
	l := t.local
	if batch.Feed != nil {
		return l.RunStep(ctx, t.program, batch.Step, batch.Feed, batch.Fetch...)
	}
	if t.variables == nil {
		if t.variables, err = ReadVariables(t.program); err != nil {
			return nil, err
		}
	}
	if err := l.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.lock.release()
	compiled, err := t.planFor(ctx, batch)
	if err != nil {
		return nil, err
	}
	if batch.Step.Rows == 0 {
		return nil, l.stepper.runEmpty(ctx, compiled, batch.Step)
	}
	if t.files != nil {
		batch.Step.Round = l.stepper.progress.Steps // another goroutine may have trained a step of its own
	}
	for i, name := range t.variables {
		t.feed[name] = batch.Tensors[i]
	}
	if !compiled.Trains() {
		return t.evaluate(ctx, compiled, batch.Step)
	}
	if err := l.stepper.run(ctx, compiled, t.feed, batch.Step); err != nil {
		return nil, err
	}
	if t.files != nil {
		t.moved()
	}
	return compiled.Fetched(), nil
}

// maxShapes is how many batch shapes keep a plan: the full batch, the last one of a pass, and what splitting over trainers makes of
// both. Nearly each batch of sequences has a shape of its own: for a further one, the oldest plan gets the new dims. The temporaries of all plans share memory.
const maxShapes = 4

// A shapedPlan is a plan with the rows that its batches have, and the rows and sequences of their fields of sequences.
type shapedPlan struct {
	rows      int64
	sequences []int64
	shapes    map[string]ops.Meta // with the offsets and values that the plan was compiled for, where it depends on them
	plan      *plan.Plan
}

// fits reports whether the plan was compiled for batches of such a shape.
func (s *shapedPlan) fits(batch *Batch, variables []string) bool {
	if s.rows != batch.Step.Rows {
		return false
	}
	rest := s.sequences
	for i, v := range batch.Tensors {
		m := s.shapes[variables[i]]
		if m.LoD != nil && !slices.EqualFunc(m.LoD, v.LoD(), slices.Equal[[]int64]) || m.Value != nil && !slices.Equal(ops.Integers(m.Value), ops.Integers(v)) {
			return false
		}
		for _, n := range sequencesOf(v) {
			if len(rest) == 0 || rest[0] != n {
				return false
			}
			rest = rest[1:]
		}
	}
	return true
}

// sequencesOf yields the number of rows of a tensor with LoD, and of its sequences in each level. It allocates only for such a tensor.
func sequencesOf(v *tensor.Tensor) []int64 {
	if len(v.LoD()) == 0 {
		return nil
	}
	list := []int64{v.Dims()[0]}
	for _, level := range v.LoD() {
		list = append(list, int64(len(level)))
	}
	return list
}

// planFor returns the plan for the shapes of a batch. For a batch without rows any plan serves.
func (t *training) planFor(ctx context.Context, batch *Batch) (*plan.Plan, error) {
	rows := batch.Step.Rows
	for i := range t.plans {
		if rows == 0 || t.plans[i].fits(batch, t.variables) {
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
	var compiled *plan.Plan
	if len(t.plans) == sizesOf(t.program, maxShapes) {
		oldest := t.plans[0].plan
		t.plans = slices.Delete(t.plans, 0, 1)
		if plan.Resize(oldest, shapes) {
			compiled = oldest
		}
	}
	if compiled == nil {
		if compiled, err = t.local.planner.compile(ctx, t.local.planner.versions.of(t.program), shapes, t.run.Fetch); err != nil {
			return nil, err
		}
	}
	shaped := shapedPlan{rows: max(rows, 1), shapes: shapes, plan: compiled}
	if rows > 0 {
		for _, v := range batch.Tensors {
			shaped.sequences = append(shaped.sequences, sequencesOf(v)...)
		}
	}
	t.plans = append(t.plans, shaped)
	return compiled, nil
}

// shapes describes the variables that are read: as they are in batch, or with one row, and one sequence, when it has none.
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
		for range declared.LoDLevel {
			row.SetLoD(append(row.LoD(), singles(1)))
		}
		feed[name] = row
	}
	return shapesOf(t.program, feed)
}

// RefuseInCallback is the error of a call that changes the state and comes while the callback of Train runs. call is the name of the method.
func RefuseInCallback(call string) error {
	return fault.E(fault.InvalidArgument, fault.At("executor"), fault.Got(call+" from the callback of Train, or while the callback runs"),
		fault.Want("a call that only reads the state: Save, or Run of a program that trains nothing"),
		fault.Hint("return executor.ErrStop from the callback, and call "+call+" when Train has returned"))
}

// ClosedInCallback is the error of Train when its callback has closed the executor.
func ClosedInCallback() error {
	return fault.E(fault.Canceled, fault.At("executor"), fault.Got("Close from the callback of Train, or while the callback runs"))
}
