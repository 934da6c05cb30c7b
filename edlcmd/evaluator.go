package edlcmd

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"google.golang.org/protobuf/proto"
)

// An evaluator evaluates a run while it trains, or hears what the trainers of a job have evaluated. Training takes the same steps with and without it: parameters
// are read between two steps, and nobody writes to them.
type evaluator struct {
	program *program.Program
	data    map[string][]string
	every   uint64 // steps between two evaluations; 0: one after each pass
	loss    string // empty: none
	specs   []metrics.Spec
	rule    *metrics.Rule // nil: none
	best    string        // the metric of --keep-best; empty: none

	byTrainers *job.Evaluation // what the trainers of a job do; nil: the evaluator evaluates

	local   *executor.Local                    // runs program
	refresh func(context.Context) error        // gives local the parameters of the run; nil: it has them
	ends    func(executor.StepResult) bool     // reports whether a step was the last one of its pass
	keep    func(ctx context.Context) error    // writes the model of the best evaluation
	show    func(evaluation) error             // reports an evaluation
	say     func(format string, values ...any) // tells a person
	close   func() error                       // ends local

	seen      bool                // a step
	last      executor.StepResult // without Fetched
	evaluated bool                // after last
	now       evaluation          // the last one
	trend     metrics.Trend
	top       evaluation // the best one; no results: none yet
	stopped   string     // the rule that has ended the run
}

// needsState says that a job must keep its state for the evaluator, which reads parameters or ends the job. Else trainers evaluate, the evaluator listens, and the job
// goes on without it, also with the next listener.
func (v *evaluator) needsState() bool { return v.byTrainers == nil || v.byTrainers.Waits }

// attach makes the evaluator read the parameters of an executor, which trains p on data and begins with a progress.
func (v *evaluator) attach(ctx context.Context, e executor.Executor, where place, spec *job.JobSpec, p *program.Program, data map[string][]string,
	begins executor.Progress) error {
	if v.byTrainers != nil {
		v.close = func() error { return nil }
		e.(interface {
			EvaluateWith(*job.Evaluation, func(*job.Evaluated) error)
		}).EvaluateWith(v.byTrainers, func(told *job.Evaluated) error { return v.told(ctx, told) })
		return nil
	}
	options := localOptions(spec)
	if where.memory > 0 {
		options = append(options, executor.WithMemory(min(where.memory, 1<<40)<<20))
	}
	if train, ok := e.(*executor.Local); ok {
		v.local = executor.New(append(options, executor.WithScope(train.Scope().NewChild()))...)
		v.close = v.local.Close
		v.ends = func(s executor.StepResult) bool { return train.Progress().Pass > s.Pass }
		return nil
	}
	if err := v.countPasses(ctx, p, data, begins); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "edl-eval-")
	if err != nil {
		return fileFault(os.TempDir(), err)
	}
	v.local = executor.New(options...)
	v.close = func() error { return errors.Join(v.local.Close(), os.RemoveAll(dir)) }
	shared := sharedOf(p, v.program)
	v.refresh = func(ctx context.Context) error {
		if err := e.Save(ctx, dir, shared); err != nil {
			return err
		}
		_, err := v.local.Load(ctx, dir, shared, executor.LoadOptions{})
		return err
	}
	return nil
}

// sharedOf is the program that evaluates, with the variables that it shares with training as its only persistable ones.
func sharedOf(trained, evaluates *program.Program) *program.Program {
	shared := evaluates.Clone()
	for _, v := range shared.Global().Vars() {
		if t, ok := trained.Global().Var(v.Name); !ok || !t.Persistable {
			v.Persistable = false
		}
	}
	return shared
}

// countPasses lets the evaluator find the ends of passes by the rows of the steps. It is for a run that does not tell its progress, and begins with one. It
// reads the index of the data here.
func (v *evaluator) countPasses(ctx context.Context, p *program.Program, data map[string][]string, begins executor.Progress) error {
	if v.every > 0 {
		return nil
	}
	source, err := executor.OpenFiles(ctx, p, data, 1)
	if err != nil {
		return fault.E(fault.KindOf(err), fault.At("--eval-every pass"), fault.Cause(err), fault.Hint("--eval-every N does not count the records of a pass on this machine"))
	}
	defer source.Close()
	whole := source.Left()
	source.GoOn(begins)
	pass, left, attempt := begins.Pass, source.Left(), 0
	v.ends = func(s executor.StepResult) bool {
		switch {
		case s.Attempt != attempt: // the rest of the pass is not known; its end shows when the next one begins
			attempt, pass, left = s.Attempt, s.Pass, math.MaxInt64
		case s.Pass != pass:
			pass, left = s.Pass, whole
		}
		left -= s.Rows
		return left <= 0
	}
	return nil
}

// after is called after each step, from the callback of Train. It returns executor.ErrStop if the rule ends training.
func (v *evaluator) after(ctx context.Context, s executor.StepResult) error {
	missed := v.seen && v.every == 0 && s.Pass != v.last.Pass && !v.evaluated
	if v.seen && s.Attempt != v.last.Attempt { // the run has lost parameters
		v.trend, missed = metrics.Trend{}, false
	}
	s.Fetched = nil
	v.seen, v.last, v.evaluated = true, s, false
	due := v.every > 0 && (s.Step+1)%v.every == 0
	if v.every == 0 {
		due = v.ends(s) || missed
	}
	if !due {
		return nil
	}
	return v.evaluate(ctx)
}

// finish is called when training has ended: it evaluates the last step, unless that has been done.
func (v *evaluator) finish(ctx context.Context) error {
	if !v.seen || v.evaluated || v.byTrainers != nil {
		return nil
	}
	if err := v.evaluate(ctx); !errors.Is(err, executor.ErrStop) {
		return err
	}
	v.stopped = ""
	return nil
}

// outcome is what the evaluations of a run have come to.
func (v *evaluator) outcome() outcome {
	o := outcome{metrics: v.now.results, stopped: v.stopped}
	if v.best != "" && v.top.best {
		o.best = &v.top
	}
	return o
}

// evaluate evaluates the parameters after the last step.
func (v *evaluator) evaluate(ctx context.Context) error {
	e := evaluation{pass: v.last.Pass, step: v.last.Step}
	if v.refresh != nil {
		if err := v.refresh(ctx); err != nil {
			return err
		}
	}
	score, err := metrics.NewScore(v.loss, v.specs...)
	if err != nil {
		return err
	}
	run := executor.TrainOptions{Data: v.data, Passes: 1, Fetch: score.Names()}
	summary, err := v.local.Train(ctx, v.program, run, func(s executor.StepResult) error { return score.Add(s.Rows, s.Fetched) })
	if err != nil {
		return inFile("--eval-data", err)
	}
	if e.results, err = score.Results(); err != nil {
		return err
	}
	e.records, e.elapsed, v.evaluated = summary.Records, summary.Elapsed, true
	return v.judge(ctx, e)
}

// evaluation is what the trainers of a job are to do in place of the evaluator. bound are the held-back data.
func (v *evaluator) evaluation(bound []*job.DataBinding) (*job.Evaluation, error) {
	e := &job.Evaluation{Every: v.every, Loss: v.loss, Waits: v.rule != nil || v.best != ""}
	var err error
	if e.Program, err = v.program.Encode(); err != nil {
		return nil, err
	}
	for _, d := range bound {
		d = proto.CloneOf(d)
		if err := absoluteGlobs(d.Globs); err != nil {
			return nil, err
		}
		e.Data = append(e.Data, d)
	}
	for _, spec := range v.specs {
		e.Metrics = append(e.Metrics, spec.String())
	}
	return e, nil
}

// told takes what trainers have evaluated. It returns executor.ErrStop if the rule ends training.
func (v *evaluator) told(ctx context.Context, t *job.Evaluated) error {
	if v.seen && int(t.Attempt) != v.last.Attempt { // the run has lost parameters
		v.trend = metrics.Trend{}
	}
	v.seen, v.last = true, executor.StepResult{Pass: int(t.Pass), Step: t.Step, Attempt: int(t.Attempt)}
	return v.judge(ctx, evaluationOf(t))
}

// evaluationOf is what trainers have evaluated.
func evaluationOf(t *job.Evaluated) evaluation {
	e := evaluation{pass: int(t.Pass), step: t.Step, records: t.Records, elapsed: time.Duration(t.Nanoseconds)}
	for _, r := range t.Values {
		e.results = append(e.results, metrics.Result{Name: r.Name, Kind: r.Kind, Value: r.Value, Bound: r.Bound})
	}
	return e
}

// judge shows an evaluation, keeps its model if it is the best one, and returns executor.ErrStop if the rule ends training.
func (v *evaluator) judge(ctx context.Context, e evaluation) error {
	if err := v.compare(ctx, &e); err != nil {
		return err
	}
	v.now = e
	if err := v.show(e); err != nil || v.rule == nil {
		return err
	}
	now, ok := resultOf(e.results, v.rule.Metric)
	if !ok {
		return nil
	}
	var ends bool
	if v.trend, ends = v.rule.Step(v.trend, now); ends {
		v.stopped = v.rule.String()
		return executor.ErrStop
	}
	return nil
}

// compare writes the model if the evaluation is the best one.
func (v *evaluator) compare(ctx context.Context, e *evaluation) error {
	if v.best == "" {
		return nil
	}
	now, ok := resultOf(e.results, v.best)
	before, any := resultOf(v.top.results, v.best)
	if !ok || any && !metrics.Better(now.Kind, now.Value, before.Value) {
		return nil
	}
	e.best = true
	v.top = *e
	return executor.RetrySave(ctx, func() error { return v.keep(ctx) }, func(err error, pause time.Duration) {
		v.say("edl: %v; next try after %v\n", err, pause)
	})
}

func resultOf(results []metrics.Result, name string) (metrics.Result, bool) {
	i := slices.IndexFunc(results, func(r metrics.Result) bool { return r.Name == name })
	if i < 0 {
		return metrics.Result{}, false
	}
	return results[i], true
}
