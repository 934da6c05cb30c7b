package executor_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func open[E executor.Executor](t testing.TB, e E, err error) E {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Whatever the calls, the state is that of the same batches fed one by one to an executor that does nothing else: on this machine, and in the
// oracle of clusters.
func TestAnySequenceOfCallsIsOneLongCall(t *testing.T) {
	whole, divided := testkit.NewContract(t, t.TempDir(), true), testkit.NewContract(t, t.TempDir(), false)
	local := func(options ...executor.Option) func() executor.Executor {
		return func() executor.Executor { return executor.New(options...) }
	}
	oracle := func(c *testkit.Contract, trainers int) func() executor.Executor {
		return func() executor.Executor {
			e, err := reference.New(c.Program, trainers)
			if err != nil {
				t.Fatal(err)
			}
			e.CheckFinite()
			return e
		}
	}
	for name, s := range map[string]struct {
		contract      *testkit.Contract
		open, compare func() executor.Executor
		sequences     uint64
	}{
		"local":            {whole, local(), local(), 6},
		"on two workers":   {whole, local(executor.WithWorkers(2), executor.WithGrain(0)), local(), 2},
		"one trainer":      {whole, oracle(whole, 1), local(), 2},
		"three trainers":   {divided, oracle(divided, 3), oracle(divided, 3), 2},
		"by one reference": {whole, local(), oracle(whole, 1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range s.sequences {
				compare := s.compare()
				calls := testkit.Calls(seed)
				if err := s.contract.Follow(t.Context(), calls, s.open, compare, func() string { return t.TempDir() }); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				compare.Close()
			}
		})
	}
}

// The promise in its plainest form: one pass and then two are three.
func TestPassesAddUp(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	once, again := executor.New(), executor.New()
	defer once.Close()
	defer again.Close()
	if _, err := once.Train(t.Context(), c.Program, executor.TrainOptions{Data: c.Data, Passes: 3}, nil); err != nil {
		t.Fatal(err)
	}
	for _, passes := range []int{1, 2} {
		if _, err := again.Train(t.Context(), c.Program, executor.TrainOptions{Data: c.Data, Passes: passes}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := testkit.Difference(testkit.Persistables(again.Scope(), c.Program), testkit.Persistables(once.Scope(), c.Program)); err != nil {
		t.Error(err)
	}
	if got, want := again.Progress(), (executor.Progress{Steps: 18, Pass: 3, Reader: executor.ReaderHash(c.Program)}); got != want {
		t.Errorf("progress %+v, want %+v", got, want)
	}
}

// stateOf copies all variables.
func stateOf(l *executor.Local) map[string]*tensor.Tensor {
	state := map[string]*tensor.Tensor{}
	for _, name := range l.Scope().Names() {
		v, _ := l.Scope().Find(name)
		state[name] = v.Clone()
	}
	return state
}

func TestWhatTrainsNothingChangesNothing(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	l := open(t, executor.New(), nil)
	if _, err := l.Train(t.Context(), c.Program, executor.TrainOptions{Data: c.Data}, nil); err != nil {
		t.Fatal(err)
	}
	state, progress := stateOf(l), l.Progress()
	unchanged := func(by string) {
		t.Helper()
		if err := testkit.Difference(stateOf(l), state); err != nil || l.Progress() != progress {
			t.Errorf("%s: progress %+v, want %+v; %v", by, l.Progress(), progress, err)
		}
	}
	if _, err := l.Run(t.Context(), c.Forward, c.Batches[0], c.Loss); err != nil {
		t.Fatal(err)
	}
	unchanged("a fed step")
	run := executor.TrainOptions{Data: c.Data, Passes: 2}
	if _, err := l.Train(t.Context(), c.Forward, run, nil); err != nil {
		t.Fatal(err)
	}
	unchanged("an evaluation")
	if s, err := l.Train(t.Context(), c.Forward, run, func(executor.StepResult) error { return executor.ErrStop }); err != nil || !s.Stopped {
		t.Fatal(s, err)
	}
	unchanged("an evaluation that was stopped")
	enough := errors.New("enough")
	if _, err := l.Train(t.Context(), c.Forward, run, func(executor.StepResult) error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	unchanged("an evaluation that failed")
	prepared, err := l.Prepare(t.Context(), c.Forward, c.Batches[0], c.Loss)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(10, func() { _, err = prepared.Run(ctx, c.Batches[0]) }); err != nil || n != 0 {
		t.Errorf("%v allocations a step, %v", n, err)
	}
	unchanged("a prepared step")
}

// The learning rate's counter and moving statistics are written before the update: a step that fails there, or that is cancelled, has changed neither.
func TestAStepThatFailsLeavesTheStateOfTheStepBefore(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	for _, options := range [][]executor.Option{nil, {executor.WithWorkers(2), executor.WithGrain(0)}} {
		l := open(t, executor.New(options...), nil)
		if _, err := l.Run(t.Context(), c.Program, c.Batches[0]); err != nil {
			t.Fatal(err)
		}
		state, progress := stateOf(l), l.Progress()
		bad := executor.Feed{}
		for name, v := range c.Batches[0] {
			bad[name] = v.Clone()
			bad[name].Float32s()[3] = float32(math.NaN())
		}
		if _, err := l.Run(t.Context(), c.Program, bad); !errors.Is(err, fault.NotFinite) {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 4 { // the first of them may wait in vain
			if _, err := l.Run(ended, c.Program, c.Batches[0]); !errors.Is(err, fault.Canceled) {
				t.Fatal(err)
			}
		}
		if err := testkit.Difference(stateOf(l), state); err != nil || l.Progress() != progress {
			t.Errorf("progress %+v, want %+v; %v", l.Progress(), progress, err)
		}
	}
}

func TestErrorsOfTheCallbackSaveNothing(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	for name, stop := range map[string]error{"enough": errors.New("enough"), "wrapped": errors.Join(errors.New("the loss rises"), executor.ErrStop)} {
		l := open(t, executor.New(), nil)
		run := executor.TrainOptions{Data: c.Data, Passes: 2, Save: filepath.Join(t.TempDir(), "model")}
		s, err := l.Train(t.Context(), c.Program, run, func(s executor.StepResult) error {
			if s.Step == 7 {
				return stop
			}
			return nil
		})
		stopped := errors.Is(stop, executor.ErrStop)
		if s.Stopped != stopped || (err == nil) != stopped || s.Steps != 8 || s.Passes != 2 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		want := executor.Progress{Steps: 8, Pass: 1, Batch: 2, Reader: executor.ReaderHash(c.Program)}
		if got := l.Progress(); got != want {
			t.Errorf("%s: progress %+v, want %+v", name, got, want)
		}
		if saved, ok, err := executor.ReadProgress(run.Save); err != nil || ok != stopped || ok && saved != want {
			t.Errorf("%s: saved %+v, %t, %v", name, saved, ok, err)
		}
	}
}

func TestAnotherReaderBeginsAtItsFirstPass(t *testing.T) {
	l := open(t, executor.New(), nil)
	data := testkit.LineFiles(t, t.TempDir(), 20)
	first := testkit.ReadingLine(t, optimizer.SGD(0.01))
	if _, err := l.Train(t.Context(), first.Program, executor.TrainOptions{Data: data, Passes: 2}, nil); err != nil {
		t.Fatal(err)
	}
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.Batch(r, 5))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(v[0], 1), v[1]))
	optimizer.SGD(0.01).Minimize(loss)
	second := testkit.Built(t, m, loss)
	var got []executor.StepResult
	s, err := l.Train(t.Context(), second.Program, executor.TrainOptions{Data: data}, func(s executor.StepResult) error {
		got = append(got, s)
		return nil
	})
	if err != nil || s.Steps != 4 || got[0].Step != 6 || got[0].Pass != 0 {
		t.Errorf("%+v, %+v, %v", s, got, err)
	}
	if p := l.Progress(); p.Steps != 10 || p.Pass != 1 || p.Reader != executor.ReaderHash(second.Program) {
		t.Errorf("progress %+v", p)
	}
}

// saved trains a line for some steps and saves it.
func saved(t *testing.T) (m testkit.Model, data map[string][]string, dir string) {
	t.Helper()
	m = testkit.ReadingLine(t, optimizer.Momentum(optimizer.Exponential(0.01, 2, 0.9, false), 0.9))
	data, dir = testkit.LineFiles(t, t.TempDir(), 20), filepath.Join(t.TempDir(), "model")
	l := open(t, executor.New(), nil)
	if _, err := l.Train(t.Context(), m.Program, executor.TrainOptions{Data: data, Passes: 2, Save: dir}, nil); err != nil {
		t.Fatal(err)
	}
	return m, data, dir
}

func TestLoadThatFailsLoadsNothing(t *testing.T) {
	m, _, dir := saved(t)
	names := executor.Persistables(m.Program)
	last := filepath.Join(dir, names[len(names)-1])
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"missing":     func() error { return os.Remove(last) },
		"corrupt":     func() error { return os.WriteFile(last, whole[:len(whole)-1], 0o600) },
		"no progress": func() error { return os.WriteFile(filepath.Join(dir, executor.ProgressFile), nil, 0o600) },
	} {
		l := open(t, executor.New(), nil)
		if err := l.Startup(t.Context(), m.Program); err != nil {
			t.Fatal(err)
		}
		l.SetProgress(executor.Progress{Steps: 3})
		state := stateOf(l)
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Load(t.Context(), dir, m.Program, executor.LoadOptions{}); err == nil {
			t.Errorf("%s: loaded", name)
		}
		if err := testkit.Difference(stateOf(l), state); err != nil || l.Progress().Steps != 3 {
			t.Errorf("%s: %+v, %v", name, l.Progress(), err)
		}
		if err := os.WriteFile(last, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadFromStart(t *testing.T) {
	m, data, dir := saved(t)
	l := open(t, executor.New(), nil)
	report, err := l.Load(t.Context(), dir, m.Program, executor.LoadOptions{FromStart: true})
	if err != nil || !slices.Equal(report.Initialized, []string{program.LRDecayCounter}) || l.Progress() != (executor.Progress{}) {
		t.Fatalf("%+v, %+v, %v", report, l.Progress(), err)
	}
	if len(report.Loaded)+1 != len(executor.Persistables(m.Program)) {
		t.Errorf("loaded %v", report.Loaded)
	}
	first := uint64(99)
	if _, err := l.Train(t.Context(), m.Program, executor.TrainOptions{Data: data}, func(s executor.StepResult) error {
		first = min(first, s.Step)
		return nil
	}); err != nil || first != 0 {
		t.Errorf("first step %d, %v", first, err)
	}
	counter, _ := l.Scope().Find(program.LRDecayCounter)
	if got := counter.Int64s()[0]; got != 2 {
		t.Errorf("counter %d after three steps, want 2", got)
	}
}

// A constant rate is what update ops read: directly, or with the factor of a parameter. A rate that a schedule computes is none.
func TestLearningRates(t *testing.T) {
	build := func(o *optimizer.Optimizer) map[string]float64 {
		m := layers.NewModel()
		x, y := layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "y", layers.Dims(1))
		h := layers.FC(x, 1, layers.Param(layers.ParamAttr{LearningRate: 0.5, Initializer: layers.Constant(0.125)}),
			layers.Bias(layers.ParamAttr{LearningRate: 2, Initializer: layers.Constant(0)}))
		o.Minimize(layers.Mean(layers.SquareErrorCost(h, y)))
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		return executor.LearningRates(p)
	}
	if got := build(optimizer.Adam(0.25)); len(got) != 1 || got["learning_rate_0"] != 0.25 {
		t.Errorf("constant: %v", got)
	}
	if got := build(optimizer.Momentum(optimizer.Exponential(0.1, 2, 0.5, false), 0.9)); len(got) != 0 {
		t.Errorf("schedule: %v", got)
	}
}

// A directory of Fluid, or of an earlier EDL, has no progress.
func TestLoadWithoutProgressBeginsAnew(t *testing.T) {
	m, _, dir := saved(t)
	if err := executor.RemoveProgress(dir); err != nil {
		t.Fatal(err)
	}
	l := open(t, executor.New(), nil)
	l.SetProgress(executor.Progress{Steps: 3})
	if _, err := l.Load(t.Context(), dir, m.Program, executor.LoadOptions{}); err != nil || l.Progress() != (executor.Progress{}) {
		t.Errorf("%+v, %v", l.Progress(), err)
	}
}

func TestLoadPartOfAModel(t *testing.T) {
	build := func(classes int64, more bool) fixture.Model {
		m := layers.NewModel().Seed(9)
		x, y := layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
		h := layers.FC(x, 6, layers.Act("relu"), layers.Param(layers.ParamAttr{Name: "body"}))
		if more {
			h = layers.FC(h, 6, layers.Param(layers.ParamAttr{Name: "new"}))
		}
		cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(h, classes, layers.Param(layers.ParamAttr{Name: "head"})), y)
		loss := layers.Mean(cost)
		optimizer.SGD(0.1).Minimize(loss)
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		return fixture.Model{Program: p, Loss: loss.Name()}
	}
	old, dir := build(3, false), t.TempDir()
	first := open(t, executor.New(), nil)
	y, _ := tensor.FromSlice([]int64{0, 1}, 2, 1)
	if _, err := first.Run(t.Context(), old.Program, executor.Feed{"x": testkit.Random(t, tensor.Float32, 1, 2, 4), "y": y}); err != nil {
		t.Fatal(err)
	}
	if err := first.Save(t.Context(), dir, old.Program); err != nil {
		t.Fatal(err)
	}
	model, l, fresh := build(5, true), open(t, executor.New(), nil), open(t, executor.New(), nil)
	if _, err := l.Load(t.Context(), dir, model.Program, executor.LoadOptions{}); !errors.Is(err, fault.ShapeMismatch) && !errors.Is(err, fault.NotFound) {
		t.Errorf("the whole of it: %v", err)
	}
	if names := l.Scope().Names(); len(names) != 0 {
		t.Errorf("a load that failed has set %v", names)
	}
	report, err := l.Load(t.Context(), dir, model.Program, executor.LoadOptions{Partial: true})
	if err != nil || !slices.Contains(report.Loaded, "body") || !slices.Contains(report.Initialized, "head") || !slices.Contains(report.Initialized, "new") ||
		!slices.IsSorted(report.Loaded) || !slices.IsSorted(report.Initialized) ||
		len(report.Loaded)+len(report.Initialized) != len(executor.Persistables(model.Program)) {
		t.Fatalf("%+v, %v", report, err)
	}
	if err := fresh.Startup(t.Context(), model.Program); err != nil {
		t.Fatal(err)
	}
	for _, name := range executor.Persistables(model.Program) {
		from := fresh
		if slices.Contains(report.Loaded, name) {
			from = first
		}
		got, _ := l.Scope().Find(name)
		want, _ := from.Scope().Find(name)
		if !testkit.Same(got, want) {
			t.Errorf("%s is %v, want %v", name, testkit.Show(got), testkit.Show(want))
		}
	}
	if l.Progress().Steps != 1 {
		t.Errorf("progress %+v", l.Progress())
	}
	combined := filepath.Join(t.TempDir(), "params")
	if err := executor.SaveCombined(first.Scope(), combined, old.Program); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Load(t.Context(), combined, model.Program, executor.LoadOptions{Partial: true}); !errors.Is(err, fault.InvalidArgument) ||
		!strings.Contains(err.Error(), "names") {
		t.Errorf("a part of a combined file: %v", err)
	}
}

// The callback of Train may read the state. What would change it is refused.
func TestCallsFromTheCallback(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	for seed := range uint64(4) {
		if err := c.TrainWithCalls(t.Context(), seed, 15, open(t, executor.New(), nil), open(t, executor.New(), nil), t.TempDir); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for _, ends := range []error{nil, executor.ErrStop} {
		if err := c.CloseInCallback(t.Context(), executor.New(executor.WithWorkers(2)), ends); err != nil {
			t.Errorf("Close, and %v: %v", ends, err)
		}
	}
}

// An evaluation whose ops update moving statistics changes the state for nobody, not even for calls from its callback.
func TestCallsFromTheCallbackOfAnEvaluation(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	oracle, err := reference.New(c.Program, 1)
	oracle = open(t, oracle, err)
	saved, want, err := c.EvaluateWithCalls(t.Context(), open(t, executor.New(), nil), t.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]executor.Executor{"on two workers": open(t, executor.New(executor.WithWorkers(2), executor.WithGrain(0)), nil),
		"oracle": oracle} {
		got, err := c.EvaluateFrom(t.Context(), saved, e, t.TempDir)
		if err != nil || !slices.EqualFunc(got, want, testkit.Same) {
			t.Errorf("%s: %d values, want the same %d; %v", name, len(got), len(want), err)
		}
	}
}
