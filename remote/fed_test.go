package remote_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// normed is a model with moving statistics, which a test form reads. It is fed "x" and "y".
func normed(t testing.TB) (m testkit.Model, prediction string) {
	t.Helper()
	model := layers.NewModel().Seed(5)
	x := layers.Data(model, "x", layers.Dims(testkit.Width))
	y := layers.Data(model, "y", layers.Dims(1))
	out := layers.FC(layers.BatchNorm(layers.FC(x, 4)), 1, layers.Name("prediction"))
	loss := layers.Mean(layers.SquareErrorCost(out, y), layers.Name("loss"))
	optimizer.Momentum(0.05, 0.9).Minimize(loss)
	return testkit.Built(t, model, loss), "prediction"
}

// What is fetched by rows comes back in the order of rows, also where some trainers have none.
func TestFetchByRows(t *testing.T) {
	m, prediction := normed(t)
	fetch := []string{m.Loss, prediction, "fc_0.w_0", "batch_norm_0.w_1"}
	want, err := reference.New(m.Program, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got := executorOf(t, listener(t), &remote.JobSpec{Trainers: 4, Pservers: 2, MinBlockSize: 4})
	for step, rows := range []int64{1, 9, 2, 3, 4, 1} {
		feed := testkit.Batch(t, m.Program, uint64(step), rows)
		a, err := want.Run(bounded(t), m.Program, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := got.Run(bounded(t), m.Program, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		if dims := b[1].Dims(); len(dims) != 2 || dims[0] != rows {
			t.Errorf("step %d: predictions %v of %d rows", step, dims, rows)
		}
		if err := testkit.Difference(named(fetch, b), named(fetch, a)); err != nil {
			t.Errorf("step %d of %d rows: %v", step, rows, err)
		}
	}
}

// A program that trains nothing runs on the values that the job has at that moment.
func TestEvaluateBetweenSteps(t *testing.T) {
	m, prediction := normed(t)
	test := m.Program.CloneForTest()
	want := executor.New()
	defer want.Close()
	got := executorOf(t, listener(t), &remote.JobSpec{Trainers: 1, Pservers: 3, MinBlockSize: 2})
	all := testkit.Batch(t, m.Program, 99, 10)
	for step := range uint64(4) {
		feed := testkit.Batch(t, m.Program, step, 8)
		for _, e := range []executor.Executor{want, got} {
			if _, err := e.Run(bounded(t), m.Program, feed); err != nil {
				t.Fatal(err)
			}
		}
		a, err := want.Run(bounded(t), test, all, prediction, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		b, err := got.Run(bounded(t), test, all, prediction, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(named([]string{prediction, m.Loss}, b), named([]string{prediction, m.Loss}, a)); err != nil {
			t.Errorf("after step %d: %v", step, err)
		}
	}
}

// A step wants a feed. Programs that train may take turns, and an equal program goes on in the same job.
func TestTrainingProgramsTakeTurns(t *testing.T) {
	m, _ := normed(t)
	e := executorOf(t, listener(t), &remote.JobSpec{})
	feed := testkit.Batch(t, m.Program, 1, 4)
	if _, err := e.Run(bounded(t), m.Program, nil, m.Loss); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "want a feed") {
		t.Errorf("a step without a feed: %v", err) // in the words of one machine
	}
	other := headed(t, "head.other", 3)
	for i, turn := range []struct {
		m    testkit.Model
		jobs int
	}{{m, 1}, {testkit.Model{Program: m.Program.Clone(), Loss: m.Loss}, 1}, {other, 2}, {m, 3}} {
		if _, err := e.Run(bounded(t), turn.m.Program, feed, turn.m.Loss); err != nil {
			t.Errorf("turn %d: %v", i, err)
		}
		if jobs, err := e.Client().Jobs(bounded(t)); err != nil || len(jobs) != turn.jobs {
			t.Errorf("turn %d: %d jobs, want %d; %v", i, len(jobs), turn.jobs, err)
		}
	}
}

// A program that reads its own data may be fed instead, as on one machine.
func TestAProgramThatReadsCanBeFed(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	local := executor.New()
	defer local.Close()
	cluster, err := remote.NewExecutor("", &remote.JobSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for step := range uint64(3) {
		feed := testkit.Batch(t, m.Program, step, 5)
		want, err := local.Run(bounded(t), m.Program, feed, "loss")
		if err != nil {
			t.Fatal(err)
		}
		got, err := cluster.Run(bounded(t), m.Program, feed, "loss")
		if err != nil {
			t.Fatal(err)
		}
		if !testkit.Same(got[0], want[0]) {
			t.Fatalf("step %d: loss %s, want %s", step, testkit.Show(got[0]), testkit.Show(want[0]))
		}
	}
}

// An elastic job that is fed trains every batch once, whatever the number of its trainers: each row adds one to the element that it names, so the sums
// do not depend on how rows are divided.
func TestElasticFedJob(t *testing.T) {
	const elements, rows = 10, 6
	model := layers.NewModel()
	ids := layers.Data(model, "ids", layers.Dims(1), layers.DType(tensor.Int64))
	counts := layers.Embedding(ids, elements, 1, layers.Param(layers.ParamAttr{Name: "counts", Initializer: layers.Constant(0)}))
	loss := layers.ReduceSum(layers.Scale(counts, -1, 0))
	optimizer.SGD(1).Minimize(loss)
	m := testkit.Built(t, model, loss)
	l := listener(t)
	e := executorOf(t, l, &remote.JobSpec{Trainers: 1, TrainersMax: 3, Pservers: 2, MinBlockSize: 4})
	want := make([]float32, elements)
	for step := range 12 {
		batch := make([]int64, rows)
		for i := range batch {
			batch[i] = int64(step*step+3*i) % elements
			want[batch[i]]++
		}
		feed, err := tensor.FromSlice(batch, rows, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Run(bounded(t), m.Program, executor.Feed{"ids": feed}, "counts")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0].Float32s(), want) {
			t.Fatalf("step %d: counts %v, want %v", step, got[0].Float32s(), want)
		}
		if step%3 > 0 {
			continue
		}
		jobs, err := e.Client().Jobs(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Client().Scale(bounded(t), jobs[0].Job, 1+(step/3+1)%3); err != nil {
			t.Fatal(err)
		}
	}
	// The listener hears of a step after the caller: an async coordinator tells what is durable.
	ctx := bounded(t)
	for {
		jobs, err := e.Client().Jobs(ctx)
		if err != nil || len(jobs) != 1 || jobs[0].Steps > 12 || jobs[0].Attempt != 0 {
			t.Fatalf("%v, %v", jobs, err)
		}
		if jobs[0].Steps == 12 {
			return
		}
	}
}

// killed feeds a job of processes and kills a role between two steps.
func killed(t *testing.T, name string, m testkit.Model, check func(step uint64, got []*tensor.Tensor, err error)) *remote.Executor {
	t.Helper()
	r := newRig(t)
	spec := shortLived()
	e := executorOf(t, r.listener(), spec)
	for step := range uint64(8) {
		if step == 4 {
			h := r.handle(name)
			if err := syscall.Kill(h.Pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = h.Wait()
		}
		feed := testkit.Batch(t, m.Program, step, 7)
		got, err := e.Run(bounded(t), m.Program, feed, m.Loss)
		check(step, got, err)
	}
	return e
}

// A fed job whose trainer or coordinator is killed between two steps goes on as if nothing had happened.
func TestFedJobSurvivesTrainersAndCoordinators(t *testing.T) {
	for _, name := range []string{"trainer-1", "coordinator"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
			want, err := reference.New(m.Program, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			e := killed(t, name, m, func(step uint64, got []*tensor.Tensor, err error) {
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				wanted, err := want.Run(bounded(t), m.Program, testkit.Batch(t, m.Program, step, 7), m.Loss)
				if err != nil {
					t.Fatal(err)
				}
				if !testkit.Same(got[0], wanted[0]) {
					t.Errorf("step %d: loss %s, want %s", step, testkit.Show(got[0]), testkit.Show(wanted[0]))
				}
			})
			saved := t.TempDir()
			if err := e.Save(bounded(t), saved, m.Program); err != nil {
				t.Fatal(err)
			}
			if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A step whose coordinator is killed while trainers compute it is trained once, and its caller is told what it fetched.
func TestFedStepSurvivesItsCoordinator(t *testing.T) {
	t.Parallel()
	model := layers.NewModel().Seed(3)
	x, y := layers.Data(model, "x", layers.Dims(testkit.Width)), layers.Data(model, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(pauses(layers.FC(x, 10, layers.Act("tanh"))), 1), y))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	m := testkit.Built(t, model, loss)
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	r := newRig(t)
	e := executorOf(t, r.listener(), shortLived())
	for step := range uint64(3) {
		feed := testkit.Batch(t, m.Program, step, 7)
		type answer struct {
			values []*tensor.Tensor
			err    error
		}
		told := make(chan answer, 1)
		go func() {
			values, err := e.Run(bounded(t), m.Program, feed, m.Loss)
			told <- answer{values, err}
		}()
		if step == 0 {
			first, second := r.waitPaused("trainer-0"), r.waitPaused("trainer-1")
			r.signal("coordinator", syscall.SIGKILL)
			r.resume("trainer-0", first)
			r.resume("trainer-1", second)
		}
		got := <-told
		wanted, err := want.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil || got.err != nil {
			t.Fatalf("step %d: %v, %v", step, got.err, err)
		}
		if !testkit.Same(got.values[0], wanted[0]) {
			t.Errorf("step %d: loss %s, want %s", step, testkit.Show(got.values[0]), testkit.Show(wanted[0]))
		}
	}
}

// A step whose call ends while the trainers compute it is trained, once, and the batch of the next call is trained after it. A step that was never
// sent is not trained.
func TestFedStepThatIsGivenUp(t *testing.T) {
	t.Parallel()
	model := layers.NewModel().Seed(3)
	x, y := layers.Data(model, "x", layers.Dims(testkit.Width)), layers.Data(model, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(pauses(layers.FC(x, 10, layers.Act("tanh"))), 1), y))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	m := testkit.Built(t, model, loss)
	want := executor.New()
	defer want.Close()
	r := newRig(t)
	spec := shortLived()
	spec.Trainers = 1
	e := executorOf(t, r.listener(), spec)
	never, cancel := context.WithCancel(bounded(t))
	cancel()
	if _, err := e.Run(never, m.Program, testkit.Batch(t, m.Program, 9, 7), m.Loss); !errors.Is(err, fault.Canceled) {
		t.Errorf("a step whose context has ended: %v", err)
	}
	ctx, cancel := context.WithCancel(bounded(t))
	gaveUp := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, m.Program, testkit.Batch(t, m.Program, 0, 7), m.Loss)
		gaveUp <- err
	}()
	trainer := r.waitPaused("trainer-0")
	cancel()
	if err := <-gaveUp; !errors.Is(err, fault.Canceled) {
		t.Errorf("a step whose context ends: %v", err)
	}
	r.resume("trainer-0", trainer)
	for seed := range uint64(3) {
		wanted, err := want.Run(bounded(t), m.Program, testkit.Batch(t, m.Program, seed, 7), m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		if seed == 0 {
			continue // given up
		}
		got, err := e.Run(bounded(t), m.Program, testkit.Batch(t, m.Program, seed, 7), m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		if !testkit.Same(got[0], wanted[0]) {
			t.Errorf("batch %d: loss %s, want %s", seed, testkit.Show(got[0]), testkit.Show(wanted[0]))
		}
	}
	saved := t.TempDir()
	if err := e.Save(bounded(t), saved, m.Program); err != nil {
		t.Fatal(err)
	}
	if p, _, err := executor.ReadProgress(saved); err != nil || p.Steps != 3 {
		t.Errorf("%d steps are trained, want 3: %v", p.Steps, err)
	}
}
