package edlcmd

import (
	"context"
	"errors"
	"fmt"
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
	f.addData(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.stop, "stop-when", "", "with --eval-data: the `RULE` that ends training: \"auc not better for 3\", \"auc above 0.9\" or \"loss below 0.1\"")
	flags.StringVar(&f.best, "keep-best", "", "with --eval-data: --save and --export write the model of the evaluation with the best `METRIC`, such as auc or loss")
}

// addData adds the flags of evaluations from which nothing follows: trainers do them, and nobody need decide.
func (f *evalFlags) addData(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.data, "eval-data", nil, "evaluate on held-back records while training, as `NAME=GLOB`; repeatable")
	flags.StringVar(&f.program, "eval", "", "with --eval-data: the program `FILE` that evaluates (default: the clone for test of the program that trains)")
	flags.StringVar(&f.every, "eval-every", "pass", "with --eval-data: `WHEN` to evaluate: at the end of each pass (pass), or every so many steps (1000)")
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

// prepare checks the flags and returns the evaluator of a run that trains p, without what it takes from an executor. It is nil if nothing is held back.
func (f *evalFlags) prepare(ctx context.Context, flags *pflag.FlagSet, texts []string, where place, spec *job.JobSpec, p *program.Program,
	exports bool) (*evaluator, error) {
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
	if v.specs, err = metricSpecs(texts, v.program); err != nil {
		return nil, err
	}
	if v.loss = lossName(v.program); f.program == "" {
		v.loss = lossName(p) // which tells the scale of a loss from other factors
	}
	score, err := metrics.NewScore(v.loss, v.specs...)
	if err != nil {
		return nil, inFile("--metric", err)
	}
	if err := executor.CheckRun(v.program, executor.TrainOptions{Data: v.data, Fetch: score.Names()}); err != nil {
		return nil, ofHeldBack(err)
	}
	if f.every != "pass" {
		if v.every, err = strconv.ParseUint(f.every, 10, 63); err != nil || v.every == 0 {
			return nil, fault.E(fault.InvalidArgument, fault.At("--eval-every"), fault.Got(fault.Quote(f.every)), fault.Want("pass, or a number of steps, such as 1000"))
		}
	}
	if err := f.decide(v, score.Labels(), spec, exports); err != nil {
		return nil, err
	}
	if where.remote && jobspec.TableOnServers(v.program) == "" {
		if got, _ := jobspec.NotByTrainers(spec); got == "" {
			if v.byTrainers, err = v.evaluation(bound); err != nil {
				return nil, err
			}
		}
	}
	if v.byTrainers != nil && where.address != "" { // the files are where the trainers are
		return v, nil
	}
	if err := jobspec.CheckFiles(ctx, &job.JobSpec{Data: bound}); err != nil {
		return nil, inFile("--eval-data", err)
	}
	return v, nil
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
func (f *evalFlags) decide(v *evaluator, labels []string, spec *job.JobSpec, exports bool) error {
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
