package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// evalFlags say on which held-back data a run is evaluated while it trains, when, and what follows from it.
type evalFlags struct {
	program string
	data    []string
	every   string
	stop    string
	best    string
}

// heldBackFlags have an effect together with --eval-data only.
var heldBackFlags = []string{"eval", "eval-every", "stop-when", "keep-best"}

func (f *evalFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.data, "eval-data", nil, "evaluate on held-back records while training, as `NAME=GLOB`; repeatable")
	flags.StringVar(&f.program, "eval", "", "with --eval-data: the program `FILE` that evaluates (default: the clone for test of the program that trains)")
	flags.StringVar(&f.every, "eval-every", "pass", "with --eval-data: `WHEN` to evaluate: at the end of each pass (pass), or every so many steps (1000)")
	flags.StringVar(&f.stop, "stop-when", "", "with --eval-data: the `RULE` that ends training: \"auc not better for 3\", \"auc above 0.9\" or \"loss below 0.1\"")
	flags.StringVar(&f.best, "keep-best", "", "with --eval-data: --save and --export write the model of the evaluation with the best `METRIC`, such as auc or loss")
}

// An evaluation is what the parameters are worth after a step.
type evaluation struct {
	pass    int
	step    uint64 // that was trained last
	records int64  // of held-back data
	elapsed time.Duration
	results []metrics.Result
	best    bool // better than all before, by --keep-best
}

// line is the evaluation as text.
func (e evaluation) line() string {
	text := fmt.Sprintf("eval  pass %d  step %d  %s", e.pass, e.step, textResults(e.results))
	if e.best {
		text += "  (best)"
	}
	return text
}

// An evaluator evaluates a run while it trains. Training takes the same steps with and without it: the evaluator reads parameters between two steps, and
// writes to none of them.
type evaluator struct {
	program *program.Program
	data    map[string][]string
	every   uint64 // steps between two evaluations; 0: one after each pass
	names   []string
	loss    string // one of names, or empty
	scored  *scoring
	rule    *metrics.Rule // nil: none
	best    string        // the metric of --keep-best; empty: none

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

// prepare checks the flags and returns the evaluator of a run that trains p, without what it takes from an executor. It is nil if nothing is held back.
func (f *evalFlags) prepare(ctx context.Context, flags *pflag.FlagSet, texts []string, spec *job.JobSpec, p *program.Program, exports bool) (*evaluator, error) {
	if len(f.data) == 0 {
		return nil, refuseIdle(flags, heldBackFlags, "a run without held-back data", "it together with --eval-data NAME=GLOB")
	}
	if !trains(p) {
		return nil, fault.E(fault.InvalidArgument, fault.At("--eval-data"), fault.Got("a program that trains nothing"), fault.Want("one that trains"),
			fault.Hint("such a program evaluates what --data names"))
	}
	v := &evaluator{program: p.CloneForTest(), best: f.best}
	bound, err := parseData("--eval-data", f.data)
	if err != nil {
		return nil, err
	}
	v.data = bindings(&job.JobSpec{Data: bound})
	if f.program != "" {
		if v.program, _, err = loadWhole(f.program); err != nil {
			return nil, err
		}
		if trains(v.program) {
			return nil, fault.E(fault.InvalidArgument, fault.At("--eval"), fault.Got("a program that trains"), fault.Want("one that only evaluates, such as a clone for test"))
		}
	}
	if err := checkShared(p, v.program); err != nil {
		return nil, err
	}
	if v.scored, err = newScoring(texts, v.program); err != nil {
		return nil, err
	}
	if v.loss = lossName(v.program); v.loss != "" {
		v.names = []string{v.loss}
	}
	if err := executor.CheckRun(v.program, executor.TrainOptions{Data: v.data, Fetch: v.scored.fetch(v.names)}); err != nil {
		return nil, ofHeldBack(err)
	}
	if err := jobspec.CheckFiles(ctx, &job.JobSpec{Data: bound}); err != nil {
		return nil, inFile("--eval-data", err)
	}
	if f.every != "pass" {
		if v.every, err = strconv.ParseUint(f.every, 10, 63); err != nil || v.every == 0 {
			return nil, fault.E(fault.InvalidArgument, fault.At("--eval-every"), fault.Got(fault.Quote(f.every)), fault.Want("pass, or a number of steps, such as 1000"))
		}
	}
	return v, f.decide(v, spec, exports)
}

// ofHeldBack says of an error about data that it is about --eval-data.
func ofHeldBack(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return inFile("--eval-data", err)
	}
	known := *f
	known.Hint = strings.Replace(known.Hint, "--data ", "--eval-data ", 1)
	return inFile("--eval-data", &known)
}

// decide checks what follows from evaluations.
func (f *evalFlags) decide(v *evaluator, spec *job.JobSpec, exports bool) error {
	labels := v.scored.set.Labels()
	if v.loss != "" {
		labels = append([]string{metrics.Loss}, labels...)
	}
	if len(labels) == 0 {
		return fault.E(fault.InvalidArgument, fault.At("--eval-data"), fault.Got("an evaluation with nothing to report: the program has no loss"),
			fault.Want("--metric KIND=PREDICTION,LABEL"))
	}
	known := func(flag, metric string) error {
		if slices.Contains(labels, metric) {
			return nil
		}
		return fault.E(fault.NotFound, fault.At(flag), fault.Got(fault.Quote(metric)), fault.Want("a metric of the evaluation: "+strings.Join(labels, ", ")),
			fault.Hint("--metric adds others"))
	}
	if f.stop != "" {
		rule, err := metrics.ParseRule(f.stop)
		if err != nil {
			return inFile("--stop-when", err)
		}
		if err := known("--stop-when", rule.Metric); err != nil {
			return err
		}
		v.rule = &rule
	}
	if f.best == "" {
		return nil
	}
	if spec.Save == "" && !exports {
		return fault.E(fault.InvalidArgument, fault.At("--keep-best"), fault.Got("a run that writes no model"), fault.Want("it together with --save or --export"))
	}
	return known("--keep-best", f.best)
}

// checkShared refuses an evaluation of variables that training does not have: their initial values say nothing. What only the evaluation writes, such as the
// counts of an op that computes a metric, is its own.
func checkShared(trained, evaluates *program.Program) error {
	own, read := map[string]bool{}, map[string]bool{}
	for _, op := range evaluates.Global().Ops {
		for _, name := range op.OutputNames() {
			own[name] = true
		}
		for _, name := range op.InputNames() {
			read[name] = true
		}
	}
	parameters := executor.Persistables(trained)
	for _, name := range executor.Persistables(evaluates) {
		v, _ := evaluates.Global().Var(name)
		t, ok := trained.Global().Var(name)
		switch {
		case !read[name] || !ok && own[name]:
		case !ok || !t.Persistable:
			return fault.E(fault.NotFound, fault.At("--eval"), fault.Var(name), fault.Got("no such parameter in the program that trains"),
				fault.Want("a program that shares all parameters by name"), fault.DidYouMean(name, parameters))
		case t.DType != v.DType || !slices.Equal(t.Dims, v.Dims):
			return fault.E(fault.ShapeMismatch, fault.At("--eval"), fault.Var(name), fault.Gotf("%v%v", v.DType, v.Dims),
				fault.Wantf("%v%v, as in the program that trains", t.DType, t.Dims))
		}
	}
	return nil
}

// attach makes the evaluator read the parameters of an executor, which trains p on data and begins with a progress.
func (v *evaluator) attach(ctx context.Context, e executor.Executor, where place, spec *job.JobSpec, p *program.Program, data map[string][]string,
	begins executor.Progress) error {
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
	if !v.seen || v.evaluated {
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
	if err := v.scored.reset(); err != nil {
		return err
	}
	var m means
	run := executor.TrainOptions{Data: v.data, Passes: 1, Fetch: v.scored.fetch(v.names)}
	summary, err := v.local.Train(ctx, v.program, run, func(s executor.StepResult) error {
		m.add(v.names, executor.StepResult{Rows: s.Rows, Fetched: s.Fetched[:len(v.names)]})
		return v.scored.add(s.Fetched)
	})
	if err != nil {
		return inFile("--eval-data", err)
	}
	if mean, ok := m.of(v.loss); ok {
		e.results = append(e.results, metrics.Result{Name: metrics.Loss, Kind: metrics.Loss, Value: mean})
	}
	scored, err := v.scored.set.Results()
	if err != nil {
		return err
	}
	e.results, e.records, e.elapsed, v.evaluated = append(e.results, scored...), summary.Records, summary.Elapsed, true
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
