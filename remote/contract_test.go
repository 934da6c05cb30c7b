package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// newExecutor connects to a listener. The caller closes it.
func newExecutor(t testing.TB, l *remote.Listener, spec *remote.JobSpec) *remote.Executor {
	t.Helper()
	if spec.RoundDeadline == nil {
		spec.RoundDeadline = durationpb.New(patience)
	}
	e, err := remote.NewExecutor(l.Address(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// An undivided oracle trains as a number of trainers do, and evaluates as one machine does: so does an Executor of this package.
type undivided struct {
	*reference.Executor
	trainers int
}

// Run implements executor.Executor.
func (u undivided) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	trainers := u.trainers
	if !executor.Trains(p) {
		trainers = 1
	}
	u.Vary(func(uint64) int { return trainers })
	return u.Executor.Run(ctx, p, feed, fetch...)
}

// oracleOf is what a cluster of some trainers must equal, bit for bit.
func oracleOf(t testing.TB, c *testkit.Contract, trainers int32) executor.Executor {
	t.Helper()
	if trainers == 1 {
		return executor.New()
	}
	e, err := reference.New(c.Program, int(trainers))
	if err != nil {
		t.Fatal(err)
	}
	e.CheckFinite()
	return undivided{e, int(trainers)}
}

// The law of the contract: whatever the calls, the state is that of the same batches fed one by one to an executor of one machine, or to the oracle
// of as many trainers. Data is shuffled, the last batch of a pass is short, and steps depend on dropout, momentum and a learning-rate schedule; on
// one trainer also on batch normalization.
func TestAnySequenceOfCallsIsOneLongCall(t *testing.T) {
	whole, divided := testkit.NewContract(t, t.TempDir(), true), testkit.NewContract(t, t.TempDir(), false)
	for name, c := range map[string]struct {
		contract *testkit.Contract
		spec     *remote.JobSpec
		children bool
		seeds    []uint64
	}{
		"one trainer":                {whole, &remote.JobSpec{Trainers: 1, Pservers: 1}, false, []uint64{0, 1, 2, 3}},
		"one trainer, three servers": {whole, &remote.JobSpec{Trainers: 1, Pservers: 3, MinBlockSize: 4}, false, []uint64{4, 5}},
		"two by two":                 {divided, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}, false, []uint64{6, 7, 8}},
		"three by one":               {divided, &remote.JobSpec{Trainers: 3, Pservers: 1}, false, []uint64{9, 10}},
		"children":                   {divided, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}, true, []uint64{11}},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "two by two", "children")
			t.Parallel()
			var l *remote.Listener
			if c.children {
				l = newRig(t).listener()
			} else {
				l = listener(t)
			}
			for _, seed := range c.seeds {
				oracle := oracleOf(t, c.contract, c.spec.Trainers)
				open := func() executor.Executor { return newExecutor(t, l, c.spec) }
				if err := c.contract.Follow(bounded(t), testkit.Calls(seed), open, oracle, func() string { return t.TempDir() }); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				oracle.Close()
			}
		})
	}
}

// mustSave compares the state that an executor saves with that of the oracle.
func mustSave(t *testing.T, got, want executor.Executor, m *testkit.Contract) {
	t.Helper()
	saved, wanted := t.TempDir(), t.TempDir()
	if err := errors.Join(got.Save(bounded(t), saved, m.Program), want.Save(bounded(t), wanted, m.Program)); err != nil {
		t.Fatal(err)
	}
	mustBeSaved(t, saved, wanted, m)
}

// mustBeSaved compares two directories of a saved state.
func mustBeSaved(t *testing.T, saved, wanted string, m *testkit.Contract) {
	t.Helper()
	if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Saved(t, wanted, m.Program)); err != nil {
		t.Error(err)
	}
	a, found, err := executor.ReadProgress(saved)
	b, _, wrong := executor.ReadProgress(wanted)
	if a != b || !found || err != nil || wrong != nil {
		t.Errorf("progress %+v (%t), want %+v; %v, %v", a, found, b, err, wrong)
	}
}

// One pass and then two are three passes: on one executor, and where each pass has an executor and a cluster of its own, which takes over what the
// last one has saved, here or where the roles run.
func TestPassesAddUp(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	train := func(e executor.Executor, run executor.TrainOptions) {
		t.Helper()
		run.Data = c.Data
		if _, err := e.Train(bounded(t), c.Program, run, nil); err != nil {
			t.Fatal(err)
		}
	}
	three := oracleOf(t, c, 2)
	defer three.Close()
	train(three, executor.TrainOptions{Passes: 3})
	spec := &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}

	one := executorOf(t, l, spec)
	train(one, executor.TrainOptions{Passes: 1})
	train(one, executor.TrainOptions{Passes: 2})
	mustSave(t, one, three, c)

	varied, err := reference.New(c.Program, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer varied.Close()
	varied.Vary(func(round uint64) int { return map[uint64]int{0: 2, 1: 3, 2: 1}[round/uint64(c.PerPass)] })
	train(varied, executor.TrainOptions{Passes: 3})
	saved := ""
	for pass, trainers := range []int32{2, 3, 1} {
		e := executorOf(t, l, &remote.JobSpec{Trainers: trainers, Pservers: 1 + int32(pass), MinBlockSize: 4})
		run := executor.TrainOptions{Passes: 1}
		if pass == 1 {
			if _, err := e.Load(bounded(t), saved, c.Program, executor.LoadOptions{}); err != nil {
				t.Fatal(err)
			}
		} else {
			run.Params = saved
		}
		if saved = t.TempDir(); pass == 2 {
			run.Save = saved
		}
		train(e, run)
		if pass < 2 {
			if err := e.Save(bounded(t), saved, c.Program); err != nil {
				t.Fatal(err)
			}
		}
	}
	wanted := t.TempDir()
	if err := varied.Save(bounded(t), wanted, c.Program); err != nil {
		t.Fatal(err)
	}
	mustBeSaved(t, saved, wanted, c)
}

// ErrStop ends the call at exactly that step, and the state is kept and saved. With a bound of steps ahead the job may train some more, which count.
func TestStopKeepsAndSaves(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	for _, ahead := range []int{0, 2, -1} {
		t.Run(fmt.Sprint(ahead, " ahead"), func(t *testing.T) {
			const last = 8
			e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
			run := executor.TrainOptions{Data: c.Data, Passes: 4, Save: t.TempDir(), Ahead: ahead}
			told := uint64(0)
			summary, err := e.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
				if s.Step != told {
					t.Errorf("step %d is told, want %d", s.Step, told)
				}
				if told++; s.Step == last {
					return fmt.Errorf("enough: %w", executor.ErrStop)
				}
				return nil
			})
			if err != nil || !summary.Stopped || told != last+1 || summary.Steps < told || ahead == 0 && summary.Steps != told ||
				ahead > 0 && summary.Steps > told+uint64(ahead)+1 {
				t.Fatalf("%+v, %v; %d steps are told", summary, err, told)
			}
			want := oracleOf(t, c, 2)
			defer want.Close()
			_, err = want.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 4}, func(s executor.StepResult) error {
				if s.Step+1 == summary.Steps {
					return executor.ErrStop
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			wanted := t.TempDir()
			if err := want.Save(bounded(t), wanted, c.Program); err != nil {
				t.Fatal(err)
			}
			mustBeSaved(t, run.Save, wanted, c)
			for _, one := range []executor.Executor{e, want} { // the rest of the pass, and one more
				if _, err := one.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 2}, nil); err != nil {
					t.Fatal(err)
				}
			}
			mustSave(t, e, want, c)
		})
	}
}

// An async job ends as soon as it can. What it has trained is kept and saved, and the state goes on in another job, and in a fed one.
func TestStopOfAnAsyncJob(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, Mode: job.Mode_ASYNC, RecordsPerTask: 8})
	run := executor.TrainOptions{Data: c.Data, Passes: 1000, Save: t.TempDir()}
	summary, err := e.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
		if s.Step == 8 {
			return executor.ErrStop
		}
		return nil
	})
	if err != nil || !summary.Stopped || summary.Steps < 9 || summary.Passes >= run.Passes {
		t.Fatalf("%+v, %v", summary, err)
	}
	now, found, err := executor.ReadProgress(run.Save)
	if err != nil || !found || now.Steps != summary.Steps || now.Pass < 1 && now.Trained == "" || now.Batch != 0 {
		t.Fatalf("%+v (%t), %v after %+v", now, found, err, summary)
	}
	first := true
	run.Passes = 1
	if summary, err = e.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
		if first && (s.Step != now.Steps || s.Pass != now.Pass) {
			t.Errorf("the next job begins with step %d of pass %d, want %+v", s.Step, s.Pass, now)
		}
		first = false
		return nil
	}); err != nil || summary.Stopped || summary.Passes != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if _, err := e.Run(bounded(t), c.Program, c.Batches[0]); err != nil {
		t.Fatal(err)
	}
	if err := e.Save(bounded(t), run.Save, c.Program); err != nil {
		t.Fatal(err)
	}
	if last, _, err := executor.ReadProgress(run.Save); err != nil || last.Steps != now.Steps+summary.Steps+1 || last.Pass != now.Pass+1 {
		t.Errorf("%+v, %v after %+v and %+v", last, err, now, summary)
	}
}

// Another error of the callback, and the end of the context, end the call with that error. The state is that of a step at or after the last one that
// was told, and the next call goes on with it.
func TestErrorsKeepTheState(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	enough := errors.New("enough")
	for name, end := range map[string]struct {
		with  func(cancel context.CancelFunc) error
		kind  error
		exact bool
	}{
		"an error of the callback": {func(context.CancelFunc) error { return enough }, enough, true},
		"the end of the context":   {func(cancel context.CancelFunc) error { cancel(); return nil }, fault.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			const last = 3
			e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 1})
			ctx, cancel := context.WithCancel(bounded(t))
			defer cancel()
			run := executor.TrainOptions{Data: c.Data, Passes: 4, Save: t.TempDir()}
			_, err := e.Train(ctx, c.Program, run, func(s executor.StepResult) error {
				if s.Step == last {
					return end.with(cancel)
				}
				return nil
			})
			if !errors.Is(err, end.kind) || ctx.Err() != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if files, err := os.ReadDir(run.Save); err != nil || len(files) > 0 {
				t.Errorf("the call has saved %v, %v", files, err)
			}
			saved := t.TempDir()
			if err := e.Save(bounded(t), saved, c.Program); err != nil {
				t.Fatal(err)
			}
			now, _, err := executor.ReadProgress(saved)
			if err != nil || now.Steps <= last || end.exact && now.Steps != last+1 {
				t.Fatalf("%+v, %v", now, err)
			}
			want := oracleOf(t, c, 2)
			defer want.Close()
			if _, err := want.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 4}, func(s executor.StepResult) error {
				if s.Step+1 == now.Steps {
					return executor.ErrStop
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, one := range []executor.Executor{e, want} {
				if _, err := one.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 1}, nil); err != nil {
					t.Fatal(err)
				}
			}
			mustSave(t, e, want, c)
		})
	}
}

// headed is a body under a head of its own. All models of a body share it by name.
func headed(t *testing.T, head string, classes int64) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(9)
	x, y := layers.Data(m, "x", layers.Dims(testkit.Width)), layers.Data(m, "y", layers.Dims(1))
	body := layers.FC(x, 5, layers.Act("tanh"), layers.Param(layers.ParamAttr{Name: "body.w"}), layers.NoBias())
	out := layers.FC(layers.FC(body, classes, layers.Param(layers.ParamAttr{Name: head}), layers.NoBias()), 1,
		layers.Param(layers.ParamAttr{Name: head + ".out"}), layers.NoBias())
	loss := layers.Mean(layers.SquareErrorCost(out, y))
	optimizer.SGD(0.05).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// Programs that train one after the other share what they share by name, each finds again what is its own, and a new head is loaded as far as it
// fits.
func TestProgramsShareTheStateByName(t *testing.T) {
	a, b := headed(t, "head.a", 3), headed(t, "head.b", 4)
	local := executor.New()
	defer local.Close()
	cluster := executorOf(t, listener(t), &remote.JobSpec{Trainers: 1, Pservers: 2, MinBlockSize: 4})
	for step, m := range []testkit.Model{a, a, b, a, b, b} {
		feed := testkit.Batch(t, m.Program, uint64(step), 6)
		want, err := local.Run(bounded(t), m.Program, feed, m.Loss, "body.w")
		if err != nil {
			t.Fatal(err)
		}
		got, err := cluster.Run(bounded(t), m.Program, feed, m.Loss, "body.w")
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(named([]string{"loss", "body"}, got), named([]string{"loss", "body"}, want)); err != nil {
			t.Errorf("step %d: %v", step, err)
		}
	}
	saved := t.TempDir()
	if err := cluster.Save(bounded(t), saved, a.Program); err != nil {
		t.Fatal(err)
	}
	wider := headed(t, "head.a", 7)
	for _, e := range []executor.Executor{local, cluster} {
		if _, err := e.Load(bounded(t), saved, wider.Program, executor.LoadOptions{}); err == nil {
			t.Error("a head of other dims is loaded")
		}
	}
	for _, e := range []executor.Executor{executor.New(), executorOf(t, listener(t), &remote.JobSpec{})} {
		report, err := e.Load(bounded(t), saved, wider.Program, executor.LoadOptions{Partial: true})
		if err != nil || fmt.Sprint(report.Loaded) != "[body.w learning_rate_0]" && fmt.Sprint(report.Loaded) != "[body.w]" ||
			fmt.Sprint(report.Initialized) != "[head.a head.a.out]" {
			t.Errorf("%+v, %v", report, err)
		}
		e.Close()
	}
}

// A program that gives a variable of the state other dims is refused on both, and the variable keeps its value.
func TestOtherDimsAreRefused(t *testing.T) {
	narrow, wide := headed(t, "head.a", 3), headed(t, "head.a", 7)
	for name, e := range map[string]executor.Executor{"local": executor.New(), "cluster": executorOf(t, listener(t), &remote.JobSpec{MaxRestarts: -1})} {
		t.Run(name, func(t *testing.T) {
			if _, err := e.Run(bounded(t), narrow.Program, testkit.Batch(t, narrow.Program, 1, 6)); err != nil {
				t.Fatal(err)
			}
			before, err := e.Run(bounded(t), narrow.Program.CloneForTest(), testkit.Batch(t, narrow.Program, 2, 6), "head.a")
			if err != nil {
				t.Fatal(err)
			}
			var f *fault.Fault
			_, err = e.Run(bounded(t), wide.Program, testkit.Batch(t, wide.Program, 3, 6))
			if !errors.As(err, &f) || f.Kind != fault.ShapeMismatch || !strings.Contains(err.Error(), "head.a") {
				t.Errorf("other dims of head.a: %v", err)
			}
			after, err := e.Run(bounded(t), narrow.Program.CloneForTest(), testkit.Batch(t, narrow.Program, 2, 6), "head.a")
			if err != nil {
				t.Fatal(err)
			}
			if err := testkit.Difference(named([]string{"head.a"}, after), named([]string{"head.a"}, before)); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An executor without a state has nothing to save, and what evaluates begins with initial values. A model that was saved before stays whole.
func TestEmptyState(t *testing.T) {
	m, prediction := normed(t)
	local := executor.New()
	defer local.Close()
	cluster := executorOf(t, listener(t), &remote.JobSpec{})
	dir := t.TempDir()
	if err := executor.WriteProgress(dir, executor.Progress{Steps: 7}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Save(bounded(t), dir, m.Program); !errors.Is(err, fault.NotFound) {
		t.Errorf("nothing is saved: %v", err)
	}
	if p, found, err := executor.ReadProgress(dir); !found || p.Steps != 7 || err != nil {
		t.Errorf("a Save that fails leaves the progress %+v, %t, %v", p, found, err)
	}
	feed, test := testkit.Batch(t, m.Program, 3, 5), m.Program.CloneForTest()
	want, err := local.Run(bounded(t), test, feed, prediction)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cluster.Run(bounded(t), test, feed, prediction)
	if err != nil {
		t.Fatal(err)
	}
	if !testkit.Same(got[0], want[0]) {
		t.Errorf("predictions %s, want %s", testkit.Show(got[0]), testkit.Show(want[0]))
	}
}

// A job that loses a pserver starts over from where the call began. Steps say which attempt they are of, and which were told before.
func TestStepsThatAreToldAgain(t *testing.T) {
	t.Parallel()
	c := testkit.NewContract(t, t.TempDir(), false)
	r := newRig(t)
	e := executorOf(t, r.listener(), shortLived())
	want := oracleOf(t, c, 2)
	defer want.Close()
	for _, one := range []executor.Executor{e, want} {
		if _, err := one.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	const struckAt = 9
	next, attempt, repeated, resumed := uint64(c.PerPass), 0, 0, 0
	summary, err := e.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 2}, func(s executor.StepResult) error {
		if s.Resumed {
			resumed++
		}
		if s.Attempt > attempt {
			attempt, next = s.Attempt, uint64(c.PerPass)
			if !s.Resumed {
				t.Error("the first step of an attempt does not say that it is")
			}
		}
		if s.Step != next || s.Repeated != (attempt > 0 && s.Step <= struckAt) {
			t.Errorf("attempt %d: step %d, repeated %t; want step %d", s.Attempt, s.Step, s.Repeated, next)
		}
		if next++; s.Repeated {
			repeated++
		}
		if attempt == 0 && s.Step == struckAt {
			r.signal("pserver-0", syscall.SIGKILL)
		}
		return nil
	})
	if err != nil || attempt != 1 || resumed != 1 || repeated != struckAt+1-c.PerPass || summary.Steps != uint64(2*c.PerPass) || summary.Passes != 2 {
		t.Fatalf("%+v, %v; %d attempts more, %d steps told again", summary, err, attempt, repeated)
	}
	if _, err := want.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Passes: 2}, nil); err != nil {
		t.Fatal(err)
	}
	mustSave(t, e, want, c)
}
