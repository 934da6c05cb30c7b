package remote_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// A fedPair feeds the same steps to a cluster and to its oracle.
type fedPair struct {
	t    *testing.T
	m    testkit.Model
	got  *remote.Executor
	want *reference.Executor
}

func newFedPair(t *testing.T, m testkit.Model, got *remote.Executor, trainers int) *fedPair {
	t.Helper()
	want, err := reference.New(m.Program, trainers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { want.Close() })
	return &fedPair{t, m, got, want}
}

// step trains a batch of 7 rows on both, which must fetch the same bits.
func (p *fedPair) step(seed uint64) {
	p.t.Helper()
	wanted := p.expect(seed)
	got, err := p.got.Run(bounded(p.t), p.m.Program, testkit.Batch(p.t, p.m.Program, seed, 7), p.m.Loss)
	if err != nil {
		p.t.Fatalf("step %d: %v", seed, err)
	}
	if !testkit.Same(got[0], wanted) {
		p.t.Errorf("step %d: loss %s, want %s", seed, testkit.Show(got[0]), testkit.Show(wanted))
	}
}

// expect trains a batch on the oracle only.
func (p *fedPair) expect(seed uint64) *tensor.Tensor {
	p.t.Helper()
	wanted, err := p.want.Run(bounded(p.t), p.m.Program, testkit.Batch(p.t, p.m.Program, seed, 7), p.m.Loss)
	if err != nil {
		p.t.Fatal(err)
	}
	return wanted[0]
}

// mustBe compares a directory of a saved state with that of the oracle.
func (p *fedPair) mustBe(saved string) {
	p.t.Helper()
	if err := testkit.Difference(testkit.Saved(p.t, saved, p.m.Program), testkit.Persistables(p.want.Scope(), p.m.Program)); err != nil {
		p.t.Error(err)
	}
	if now, found, err := executor.ReadProgress(saved); err != nil || !found || now.Steps != p.want.Progress().Steps {
		p.t.Errorf("progress %+v (%t), %v, want %d steps", now, found, err, p.want.Progress().Steps)
	}
}

// save compares the states.
func (p *fedPair) save() {
	p.t.Helper()
	saved := p.t.TempDir()
	if err := p.got.Save(bounded(p.t), saved, p.m.Program); err != nil {
		p.t.Fatal(err)
	}
	p.mustBe(saved)
}

// stopped makes the call that finds the job stopped.
func (p *fedPair) stopped() {
	p.t.Helper()
	if _, err := p.got.Run(bounded(p.t), p.m.Program, testkit.Batch(p.t, p.m.Program, 99, 7)); !errors.Is(err, fault.Canceled) {
		p.t.Errorf("a step of a job that was stopped: %v", err)
	}
}

// jobs returns the jobs of the listener.
func (p *fedPair) jobs() []*job.JobStatus {
	p.t.Helper()
	jobs, err := p.got.Client().Jobs(bounded(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	return jobs
}

// When a job loses a pserver, another one trains the same steps again, and nothing is lost: neither the state that was loaded, nor the steps, nor the
// one that was under way.
func TestFedJobThatLosesAPServer(t *testing.T) {
	t.Parallel()
	m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
	r := newRig(t)
	p := newFedPair(t, m, executorOf(t, r.listener(), shortLived()), 2)
	initial := filepath.Join(t.TempDir(), "initial")
	p.expect(9)
	if err := p.want.Save(bounded(t), initial, m.Program); err != nil {
		t.Fatal(err)
	}
	if _, err := p.got.Load(bounded(t), initial, m.Program, executor.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		p.step(seed)
	}
	r.signal("pserver-1", syscall.SIGKILL)
	p.step(3)
	r.signal("pserver-0", syscall.SIGKILL)
	p.save()
	p.step(4)
	p.save()
}

// picky is a model with a vocabulary of four words: an id of 4 or more fails its step.
func picky(t testing.TB) (m testkit.Model, feed func(id int64) executor.Feed) {
	t.Helper()
	model := layers.NewModel().Seed(3)
	ids, y := layers.Data(model, "ids", layers.Dims(1), layers.DType(tensor.Int64)), layers.Data(model, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.Embedding(ids, 4, 3), 1), y))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	return testkit.Built(t, model, loss), func(id int64) executor.Feed {
		words, err := tensor.FromSlice([]int64{0, 1, id}, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		return executor.Feed{"ids": words, "y": testkit.Random(t, tensor.Float32, uint64(id), 3, 1)}
	}
}

// A step that fails in a trainer is an error of its call, as on one machine, and changes nothing: before the first step, and between steps. So it is
// in async mode with one trainer.
func TestFedStepThatFails(t *testing.T) {
	m, feed := picky(t)
	l := listener(t)
	for name, spec := range map[string]*remote.JobSpec{
		"one by one": {Trainers: 1, Pservers: 1},
		"two by two": {Trainers: 2, Pservers: 2, MinBlockSize: 2},
		"async":      {Trainers: 1, Pservers: 2, MinBlockSize: 2, Mode: job.Mode_ASYNC},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFedPair(t, m, executorOf(t, l, spec), int(spec.Trainers))
			local := executor.New()
			defer local.Close()
			for step, id := range []int64{4, 2, 3, 7, 4, 1} {
				got, err := p.got.Run(bounded(t), m.Program, feed(id), m.Loss)
				if _, wrong := local.Run(bounded(t), m.Program, feed(id)); fault.KindOf(err) != fault.KindOf(wrong) {
					t.Fatalf("step %d: %v, and on one machine %v", step, err, wrong)
				}
				if err != nil {
					continue
				}
				want, err := p.want.Run(bounded(t), m.Program, feed(id), m.Loss)
				if err != nil {
					t.Fatal(err)
				}
				if !testkit.Same(got[0], want[0]) {
					t.Errorf("step %d: loss %s, want %s", step, testkit.Show(got[0]), testkit.Show(want[0]))
				}
			}
			p.save()
		})
	}
}

// When the context of a call ends while steps are fed again, the next call goes on with that: Run and Save, and Close where the model is to be saved.
func TestReplayThatIsGivenUp(t *testing.T) {
	t.Parallel()
	model := layers.NewModel().Seed(3)
	x, y := layers.Data(model, "x", layers.Dims(testkit.Width)), layers.Data(model, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(pauses(layers.FC(x, 10, layers.Act("tanh"))), 1), y))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	m := testkit.Built(t, model, loss)
	for name, next := range map[string]func(p *fedPair, model string){
		"Run":  func(p *fedPair, _ string) { p.step(7); p.save() },
		"Save": func(p *fedPair, _ string) { p.save() },
		"Close": func(p *fedPair, model string) {
			if err := p.got.Close(); err != nil {
				p.t.Error(err)
			}
			p.mustBe(model)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			spec := shortLived()
			spec.Trainers, spec.Save = 1, filepath.Join(t.TempDir(), "model")
			p := newFedPair(t, m, executorOf(t, r.listener(), spec), 1)
			stepped := make(chan struct{})
			go func() { defer close(stepped); p.step(0); p.step(1) }()
			r.resume("trainer-0", r.waitPaused("trainer-0"))
			<-stepped
			old := r.handle("trainer-0")
			r.signal("pserver-1", syscall.SIGKILL)
			ctx, cancel := context.WithCancel(bounded(t))
			gaveUp := make(chan error, 1)
			go func() {
				_, err := p.got.Run(ctx, m.Program, testkit.Batch(t, m.Program, 2, 7), m.Loss)
				gaveUp <- err
			}()
			r.await("the trainer of another job", func() bool { return r.handles["trainer-0"] != old })
			trainer := r.waitPaused("trainer-0")
			cancel()
			if err := <-gaveUp; !errors.Is(err, context.Canceled) {
				t.Errorf("a step whose context ends: %v", err)
			}
			r.resume("trainer-0", trainer)
			next(p, spec.Save)
		})
	}
}

// When the log is full, the state is kept and another job goes on with it. A feed that is larger than the bound is trained like any other. When a job
// is lost, only the steps since then are fed again.
func TestBoundsOfWhatIsFedAgain(t *testing.T) {
	m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
	l := listener(t)
	for name, c := range map[string]struct{ bytes, steps, jobs, later int }{"steps": {1 << 30, 2, 3, 4}, "bytes": {1, 1000, 5, 7}} {
		t.Run(name, func(t *testing.T) {
			own := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
			own.BoundLog(c.bytes, c.steps)
			p := newFedPair(t, m, own, 2)
			before := len(p.jobs())
			for seed := range uint64(5) {
				p.step(seed)
			}
			jobs := p.jobs()[before:]
			if len(jobs) != c.jobs {
				t.Errorf("%d jobs, want %d", len(jobs), c.jobs)
			}
			if err := own.Client().Stop(bounded(t), jobs[len(jobs)-1].Job); err != nil {
				t.Fatal(err)
			}
			p.stopped()
			p.step(5)
			if jobs = p.jobs()[before:]; len(jobs) != c.later {
				t.Errorf("%d jobs, want %d", len(jobs), c.later)
			}
			p.save()
		})
	}
}

// A fed job that somebody else ends costs no step. When it has ended in good order, the next call goes on. When it was stopped, the next call says
// so, so that a loop of steps ends, and the call after it goes on.
func TestFedJobThatIsEndedByOthers(t *testing.T) {
	m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
	l := listener(t)
	other, err := remote.Attach(bounded(t), l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, end := range map[string]func(id string) error{
		"finished": func(id string) error { _, err := other.Finish(bounded(t), id, nil); return err },
		"stopped":  func(id string) error { return other.Stop(bounded(t), id) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFedPair(t, m, executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}), 2)
			endLast := func() {
				t.Helper()
				jobs := p.jobs()
				if err := end(jobs[len(jobs)-1].Job); err != nil {
					t.Fatal(err)
				}
			}
			p.step(0)
			p.step(1)
			endLast()
			if name == "stopped" {
				p.stopped()
			}
			p.step(2)
			endLast()
			if name == "stopped" {
				p.stopped()
			}
			p.save()
			p.step(3)
			p.save()
		})
	}
}

// Another listener at the same address is given all steps of a state that began empty. A state that the first listener has kept is gone with it, and
// the error says how many steps are lost. While there is no listener, nothing is decided.
func TestListenerThatStartsAgain(t *testing.T) {
	m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
	for name, kept := range map[string]bool{"empty": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			first, err := remote.Listen(bounded(t))
			if err != nil {
				t.Fatal(err)
			}
			e, err := remote.NewExecutor(first.Address(), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
			if err != nil {
				t.Fatal(err)
			}
			p := newFedPair(t, m, e, 2)
			p.step(0)
			if kept {
				p.save()
			}
			p.step(1)
			p.step(2)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			run := func(seed uint64) error {
				_, err := e.Run(bounded(t), m.Program, testkit.Batch(t, m.Program, seed, 7))
				return err
			}
			hint := func(err error) string {
				var f *fault.Fault
				errors.As(err, &f)
				return f.Hint
			}
			if err := run(3); !errors.Is(err, fault.Unavailable) || !strings.Contains(hint(err), "steps that were fed are lost with their job, unless") {
				t.Errorf("a step without a listener: %v", err)
			}
			listener(t, remote.WithAddress(first.Address()))
			for err = run(3); errors.Is(err, fault.Unavailable); err = run(3) { // the connection is not there yet
			}
			p.expect(3)
			if kept {
				if !errors.Is(err, fault.NotFound) || !strings.HasPrefix(hint(err), "2 steps that were fed are lost") {
					t.Errorf("a step of a state that is gone: %v", err)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				p.save()
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A listener waits for the client of a fed job when its connection is gone, and not while it lives, however idle.
func TestListenerKnowsTheClientOfAFedJob(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.05))
	l := listener(t)
	e, err := remote.NewExecutor(l.Address(), &remote.JobSpec{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := remote.Attach(bounded(t), l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := e.Run(bounded(t), m.Program, testkit.Batch(t, m.Program, 0, 4)); err != nil {
		t.Fatal(err)
	}
	jobs, err := other.Jobs(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		answer, err := other.Why(bounded(t), jobs[0].Job)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range answer.Waits {
			if w.What == "the client that feeds the job" && w.Until != nil {
				return true
			}
		}
		return false
	}
	for ctx := bounded(t); waits(); { // until the stream of the client has begun
		if ctx.Err() != nil {
			t.Fatal("the listener does not know that the client lives")
		}
	}
	if err := e.Client().Close(); err != nil {
		t.Fatal(err)
	}
	for ctx := bounded(t); !waits(); {
		if ctx.Err() != nil {
			t.Fatal("the listener does not wait for the client")
		}
	}
	_ = e.Close() // its connection is closed
}

// What cannot work is refused at once: an address without a port, a cluster of a negative size, a nil program, and a call after Close with the error
// that it has on one machine.
func TestCallsThatCannotBe(t *testing.T) {
	for _, address := range []string{"nonsense", "localhost:", ":7164", "a:b:c"} {
		if _, err := remote.NewExecutor(address, nil); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "127.0.0.1:7164") {
			t.Errorf("the address %q: %v", address, err)
		}
	}
	m := testkit.Fed(t, optimizer.SGD(0.05))
	l := listener(t)
	for _, spec := range []*remote.JobSpec{{Trainers: -1}, {Pservers: -2}, {Workers: -1}} {
		if _, err := executorOf(t, l, spec).Run(bounded(t), m.Program, testkit.Batch(t, m.Program, 0, 4)); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v: %v", spec, err)
		}
	}
	e := executorOf(t, l, &remote.JobSpec{})
	feed := testkit.Batch(t, m.Program, 0, 4)
	_, ran := e.Run(bounded(t), nil, feed)
	_, trained := e.Train(bounded(t), nil, executor.TrainOptions{}, nil)
	_, loaded := e.Load(bounded(t), "nowhere", nil, executor.LoadOptions{})
	_, submitted := e.Submit(bounded(t), nil, executor.TrainOptions{})
	saved := e.Save(bounded(t), t.TempDir(), nil)
	for call, err := range map[string]error{"Run": ran, "Train": trained, "Load": loaded, "Submit": submitted, "Save": saved} {
		if !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s of a nil program: %v", call, err)
		}
	}
	local := executor.New()
	for _, one := range []executor.Executor{e, local} {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, got := e.Run(bounded(t), m.Program, feed)
	_, want := local.Run(bounded(t), m.Program, feed)
	if !errors.Is(got, fault.Canceled) || got.Error() != want.Error() {
		t.Errorf("after Close: %v, and on one machine %v", got, want)
	}
}
