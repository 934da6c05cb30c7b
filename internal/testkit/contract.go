package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

// A Contract is what the contract of executor.Executor is checked with: a program whose steps depend on everything that a state holds (shuffled
// data with a short last batch, read ahead; dropout; batch normalization; momentum; a learning-rate schedule), the same without an optimizer, and
// the batches that one long call would train.
type Contract struct {
	Program  *program.Program
	Forward  *program.Program // forward ops only, not made for test: they would change the moving statistics
	Loss     string
	Data     map[string][]string
	PerPass  int
	Batches  []executor.Feed // of all passes, one after the other
	Evaluate []executor.Feed // of an evaluation, which reads the first pass
}

// contractPasses is how many passes a sequence of calls may come to.
const contractPasses = 8

// NewContract writes a dataset to dir. Without chance, for executors that divide batches among trainers, there is no batch normalization.
func NewContract(t TB, dir string, norm bool) *Contract {
	t.Helper()
	build := func(train bool) Model {
		m := layers.NewModel().Seed(5)
		r := layers.OpenDataset(m, Dataset, layers.Field("x", layers.Dims(Width)), layers.Field("y", layers.Dims(1)))
		v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 20, 7), 8)))
		h := layers.FC(v[0], 10, layers.Act("tanh"))
		if norm {
			h = layers.BatchNorm(h)
		}
		prediction := layers.FC(layers.Dropout(h, 0.2), 1)
		loss := layers.Mean(layers.SquareErrorCost(prediction, v[1]), layers.Name("loss"))
		if train {
			optimizer.Momentum(optimizer.Exponential(0.05, 4, 0.9, true), 0.9).Minimize(loss)
		}
		return Built(t, m, loss)
	}
	train := build(true)
	c := &Contract{Program: train.Program, Forward: build(false).Program, Loss: train.Loss, Data: Samples(t, dir, 43), PerPass: 6}
	c.Batches = c.read(t, contractPasses)
	c.Evaluate = c.Batches[:c.PerPass]
	return c
}

func (c *Contract) read(t TB, passes int) (feeds []executor.Feed) {
	t.Helper()
	source, err := executor.OpenFiles(context.Background(), c.Program, c.Data, passes)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	names, err := executor.ReadVariables(c.Program)
	if err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := source.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return feeds
		}
		if err != nil {
			t.Fatal(err)
		}
		feed := executor.Feed{}
		for i, name := range names {
			feed[name] = batch.Tensors[i].Clone()
		}
		feeds = append(feeds, feed)
	}
}

// A Call is one call of an executor.
type Call struct {
	Kind CallKind
	N    int // passes of CallTrain, steps of CallStop
}

// CallKind says what a Call does.
type CallKind string

// Kinds of calls.
const (
	CallTrain    CallKind = "train"    // N passes
	CallStop     CallKind = "stop"     // train, with ErrStop after N steps
	CallStep     CallKind = "step"     // one fed step that trains
	CallBadStep  CallKind = "bad step" // one fed step that fails, because its loss is not finite
	CallEvaluate CallKind = "evaluate" // the program without an optimizer, on the whole dataset
	CallRun      CallKind = "run"      // the program without an optimizer, on one batch
	CallSave     CallKind = "save"     // save, and compare what is saved
	CallMove     CallKind = "move"     // save, and go on with a new executor that loads
)

// Calls returns a random sequence of calls.
func Calls(seed uint64) []Call {
	random := rand.New(rand.NewPCG(seed, 11))
	kinds := []CallKind{CallTrain, CallStop, CallStep, CallEvaluate, CallRun, CallSave, CallMove, CallTrain, CallStop, CallMove, CallStep, CallBadStep,
		CallBadStep}
	calls := make([]Call, 4+random.IntN(5))
	for i := range calls {
		calls[i].Kind = kinds[random.IntN(len(kinds))]
		switch calls[i].Kind {
		case CallTrain:
			calls[i].N = 1 + random.IntN(2)
		case CallStop:
			calls[i].N = 1 + random.IntN(8)
		}
	}
	return calls
}

// Follow makes the calls on executors that open returns, and compares values and saved states with those of oracle. What Train does is fed to the
// oracle batch by batch, an executor with a Scope: it neither reads data nor loads, and evaluates nothing that changes a state. dir returns new directories. Calls that
// would need more data than there is are left out.
func (c *Contract) Follow(ctx context.Context, calls []Call, open func() executor.Executor, oracle executor.Executor, dir func() string) (err error) {
	f := &followed{Contract: c, subject: open(), oracle: oracle.(localOracle)}
	defer func() { err = errors.Join(err, f.subject.Close()) }()
	for i, call := range append(calls, Call{Kind: CallSave}) {
		if err := f.call(ctx, call, open, dir); err != nil {
			return fmt.Errorf("call %d of %v: %w", i, calls, err)
		}
	}
	return nil
}

// localOracle is what an oracle must be: an executor on this machine whose variables can be looked at.
type localOracle interface {
	executor.Executor
	Scope() *executor.Scope
}

// followed is one sequence of calls.
type followed struct {
	*Contract
	subject executor.Executor
	oracle  localOracle
	steps   uint64
	at      int // next of Batches
	// inCallback is called in the callback of each step, when the oracle has trained it; may be nil.
	inCallback func() error
}

func (f *followed) call(ctx context.Context, call Call, open func() executor.Executor, dir func() string) error {
	switch call.Kind {
	case CallTrain:
		return f.train(ctx, executor.TrainOptions{Passes: call.N}, f.pass(call.N)*f.PerPass-f.at, false)
	case CallStop:
		return f.train(ctx, executor.TrainOptions{Passes: contractPasses - f.at/f.PerPass}, min(call.N, len(f.Batches)-f.at), true)
	case CallStep:
		return f.step(ctx)
	case CallBadStep:
		return f.badStep(ctx)
	case CallEvaluate:
		return f.evaluate(ctx)
	case CallRun:
		return f.same(ctx, f.Forward, f.Evaluate[1])
	}
	saved := dir()
	if f.steps == 0 {
		if err := f.same(ctx, f.Forward, f.Evaluate[0]); err != nil {
			return err
		}
		return nil // an optimizer's variables have no value yet
	}
	if err := f.save(ctx, saved); err != nil || call.Kind == CallSave {
		return err
	}
	if err := f.subject.Close(); err != nil {
		return err
	}
	f.subject = open()
	report, err := f.subject.Load(ctx, saved, f.Program, executor.LoadOptions{})
	if err == nil && (len(report.Loaded) != len(executor.Persistables(f.Program)) || len(report.Initialized) != 0) {
		err = fmt.Errorf("report %+v", report)
	}
	return err
}

// pass returns the pass in which a call of Train ends.
func (f *followed) pass(passes int) int { return f.at/f.PerPass + passes }

// train calls Train, which is to train the next steps of the data.
func (f *followed) train(ctx context.Context, run executor.TrainOptions, steps int, stop bool) error {
	if steps <= 0 || f.at+steps > len(f.Batches) {
		return nil
	}
	run.Data, run.Fetch = f.Data, []string{f.Loss}
	done := 0
	summary, err := f.subject.Train(ctx, f.Program, run, func(s executor.StepResult) error {
		want, err := f.oracle.Run(ctx, f.Program, f.Batches[f.at], f.Loss)
		if err != nil {
			return err
		}
		if got, want := s.Fetched[0], want[0]; !Same(got, want) {
			return fmt.Errorf("loss %v in step %d, want %v", Show(got), f.steps, Show(want))
		}
		if s.Step != f.steps || s.Pass != f.at/f.PerPass {
			return fmt.Errorf("step %d of pass %d, want step %d of pass %d", s.Step, s.Pass, f.steps, f.at/f.PerPass)
		}
		f.steps, f.at, done = f.steps+1, f.at+1, done+1
		if f.inCallback != nil {
			if err := f.inCallback(); err != nil {
				return err
			}
		}
		if stop && done == steps {
			return executor.ErrStop
		}
		return nil
	})
	if err == nil && (summary.Steps != uint64(steps) || summary.Stopped != stop) {
		err = fmt.Errorf("%+v, want %d steps", summary, steps)
	}
	return err
}

func (f *followed) step(ctx context.Context) error {
	f.steps++
	return f.same(ctx, f.Program, f.Evaluate[0])
}

// badStep feeds a row that is not finite. Both executors must refuse the step, and what follows finds the state of the step before.
func (f *followed) badStep(ctx context.Context) error {
	bad := executor.Feed{}
	for name, v := range f.Evaluate[0] {
		bad[name] = v.Clone()
	}
	bad["x"].Float32s()[3] = float32(math.NaN())
	for _, e := range []executor.Executor{f.subject, f.oracle} {
		if _, err := e.Run(ctx, f.Program, bad, f.Loss); !errors.Is(err, fault.NotFinite) {
			return fmt.Errorf("a step that is not finite: %w", cmp.Or(err, errors.New("no error")))
		}
	}
	return nil
}

// evaluate compares what Train makes of a program without an optimizer.
func (f *followed) evaluate(ctx context.Context) error {
	n := uint64(0)
	_, err := f.subject.Train(ctx, f.Forward, executor.TrainOptions{Data: f.Data, Passes: 1}, func(s executor.StepResult) error {
		if s.Step != n || s.Pass != 0 {
			return fmt.Errorf("evaluation: step %d of pass %d, want step %d of pass 0", s.Step, s.Pass, n)
		}
		n++
		return nil
	})
	if err == nil && n != uint64(f.PerPass) {
		err = fmt.Errorf("evaluation: %d steps, want %d", n, f.PerPass)
	}
	return err
}

// same compares one fed step.
func (f *followed) same(ctx context.Context, p *program.Program, feed executor.Feed) error {
	got, err := f.subject.Run(ctx, p, feed, f.Loss)
	if err != nil {
		return err
	}
	want, err := f.oracle.Run(ctx, p, feed, f.Loss)
	if err == nil && !Same(got[0], want[0]) {
		err = fmt.Errorf("loss %v of a fed step, want %v", Show(got[0]), Show(want[0]))
	}
	return err
}

// save compares what is saved with the variables of the oracle.
func (f *followed) save(ctx context.Context, saved string) error {
	if err := f.subject.Save(ctx, saved, f.Program); err != nil {
		return err
	}
	got := executor.NewScope()
	if err := executor.LoadPersistables(got, saved, f.Program); err != nil {
		return err
	}
	progress, ok, err := executor.ReadProgress(saved)
	if err != nil || !ok || progress.Steps != f.steps || progress.Pass*f.PerPass+int(progress.Batch) != f.at {
		return fmt.Errorf("progress %+v (%t), %v, want step %d at batch %d", progress, ok, err, f.steps, f.at)
	}
	return Difference(Persistables(got, f.Program), Persistables(f.oracle.Scope(), f.Program))
}
