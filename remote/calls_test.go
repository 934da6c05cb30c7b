package remote_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential/credentialtest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// hanging is a listener whose steps never end. Its jobs can be finished.
type hanging struct {
	rpc.UnimplementedListenerServer
	entered chan struct{}
}

func (h *hanging) Describe(context.Context, *rpc.DescribeRequest) (*rpc.DescribeResponse, error) {
	return &rpc.DescribeResponse{Registry: ops.Fingerprint()}, nil
}

func (h *hanging) Submit(stream grpc.ClientStreamingServer[rpc.SubmitRequest, rpc.SubmitResponse]) error {
	return stream.SendAndClose(&rpc.SubmitResponse{Job: "hanging"})
}

func (h *hanging) RunStep(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	close(h.entered)
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (h *hanging) Finish(context.Context, *rpc.FinishRequest) (*job.JobStatus, error) {
	return &job.JobStatus{}, nil
}

// serveListener serves until the test ends or stop is called.
func serveListener(t *testing.T, l rpc.ListenerServer) (address string, stop func()) {
	t.Helper()
	port, err := wire.Listen(bounded(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := wire.NewServer(wire.OfListener(credentialtest.Listener(t)))
	rpc.RegisterListenerServer(service, l)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := wire.Serve(ctx, service, port, time.Second); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return port.Addr().String(), stop
}

// Closing an executor ends the step that is under way, whatever its deadline, and no step begins after it.
func TestCloseDuringAStep(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.05))
	h := &hanging{entered: make(chan struct{})}
	address, _ := serveListener(t, h)
	e, err := remote.NewExecutor(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	var feed executor.Feed = testkit.Batch(t, m.Program, 0, 4)
	ran := make(chan error, 1)
	go func() {
		_, err := e.Run(context.Background(), m.Program, feed, m.Loss)
		ran <- err
	}()
	<-h.entered
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	for what, ended := range map[string]chan error{"step": ran, "executor": closed} {
		select {
		case err := <-ended:
			if what == "step" != errors.Is(err, fault.Canceled) {
				t.Errorf("the end of the %s: %v", what, err)
			}
		case <-bounded(t).Done():
			t.Fatalf("the %s does not end", what)
		}
	}
	if _, err := e.Run(context.Background(), m.Program, feed, m.Loss); !errors.Is(err, fault.Canceled) {
		t.Errorf("a step after the end: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A slowListener takes jobs and answers late.
type slowListener struct {
	hanging
	submitted, answer chan struct{}
	stopped           chan string
}

func (l *slowListener) Submit(stream grpc.ClientStreamingServer[rpc.SubmitRequest, rpc.SubmitResponse]) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	close(l.submitted)
	<-l.answer
	return stream.SendAndClose(&rpc.SubmitResponse{Job: "late"})
}

func (l *slowListener) Stop(_ context.Context, m *rpc.JobRequest) (*job.JobStatus, error) {
	l.stopped <- m.Job
	return &job.JobStatus{State: job.State_STOPPED}, nil
}

// A job that begins while its client gives up is stopped. No call of its client returns before.
func TestSubmitThatIsGivenUp(t *testing.T) {
	l := &slowListener{submitted: make(chan struct{}), answer: make(chan struct{}), stopped: make(chan string, 1)}
	address, _ := serveListener(t, l)
	c, err := remote.Dial(bounded(t), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(bounded(t))
	submitted := make(chan error, 1)
	go func() {
		_, err := c.Submit(ctx, &remote.JobSpec{})
		submitted <- err
	}()
	<-l.submitted
	cancel()
	close(l.answer)
	if err := <-submitted; !errors.Is(err, fault.Canceled) {
		t.Errorf("a submission that is given up: %v", err)
	}
	select {
	case id := <-l.stopped:
		if id != "late" {
			t.Errorf("job %s is stopped", id)
		}
	default:
		t.Error("the job goes on")
	}
}

// A callback that panics leaves no job behind, and the state that the executor has is that of the step.
func TestPanicInCallback(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	data := testkit.Samples(t, t.TempDir(), 20)
	e := executorOf(t, listener(t), &remote.JobSpec{})
	func() {
		defer func() {
			if got := recover(); got != "the user's" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, _ = e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 3}, func(r executor.StepResult) error {
			if r.Step == 1 {
				panic("the user's")
			}
			return nil
		})
	}()
	jobs, err := e.Client().Jobs(bounded(t))
	if err != nil || len(jobs) != 1 || jobs[0].State != job.State_SUCCEEDED {
		t.Errorf("the job: %v, %v", jobs, err)
	}
	dir := t.TempDir()
	if err := e.Save(bounded(t), dir, m.Program); err != nil {
		t.Fatal(err)
	}
	if p, _, err := executor.ReadProgress(dir); err != nil || p.Steps != 2 {
		t.Errorf("the state has %+v, %v", p, err)
	}
}

// Calls to a listener that has ended fail at once, whatever their deadline. Another listener would not know the job.
func TestCallsToAListenerThatHasEnded(t *testing.T) {
	address, stop := serveListener(t, &hanging{})
	c, err := remote.Dial(bounded(t), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop()
	for what, call := range map[string]func() error{
		"logs": func() error {
			return c.Logs(bounded(t), "hanging", "", true, func(string, string) error { return nil })
		},
		"watch":  func() error { _, err := c.Watch(bounded(t), "hanging", nil); return err },
		"submit": func() error { _, err := c.Submit(bounded(t), &remote.JobSpec{}); return err },
		"stop":   func() error { return c.Stop(bounded(t), "hanging") },
	} {
		want := "listener " + address + ": connection refused"
		if err := call(); !errors.Is(err, fault.Unavailable) || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

// noText is no UTF-8, so that no message can hold it.
const noText = "\xff"

// What cannot be sent is refused before it is, and leaves no call under way: a connection has room for a few hundred.
func TestWhatCannotBeSent(t *testing.T) {
	const more = 300
	ctx := bounded(t) // of all calls: one that is left under way stays
	m := testkit.Fed(t, optimizer.SGD(0.05))
	l := listener(t)
	e := executorOf(t, l, &remote.JobSpec{Trainers: 1, Pservers: 1})
	for range more {
		if _, err := e.Client().Submit(ctx, &remote.JobSpec{Name: noText}); !errors.Is(err, fault.InvalidArgument) {
			t.Fatalf("a job: %v", err)
		}
	}
	var feed executor.Feed = testkit.Batch(t, m.Program, 0, 4)
	if _, err := e.Run(ctx, m.Program, feed, m.Loss); err != nil {
		t.Fatal(err)
	}
	jobs, err := e.Client().Jobs(ctx)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	// The executor refuses a fetch of this name before, because the program does not have it.
	conn, err := wire.Dial(l.Address(), wire.ToListener(credentialtest.Listener(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fetch := func(name string) error {
		_, err := wire.RunStep(ctx, "listener", rpc.NewListenerClient(conn).RunStep, &rpc.Identity{Job: jobs[0].Job},
			&rpc.StepRun{Fetch: []string{name}, Step: 1})
		return err
	}
	for range more {
		if err := fetch(noText); !errors.Is(err, fault.InvalidArgument) {
			t.Fatalf("a step: %v", err)
		}
	}
	if err := fetch("fc_0.w_0"); err != nil {
		t.Error(err)
	}
}

// A mistake in a feed is told with the name of the variable, and the job goes on as if the step had not been asked for.
func TestWrongFeedsChangeNothing(t *testing.T) {
	m, _ := normed(t)
	random := func(dtype tensor.DType, dims ...int64) *tensor.Tensor { return testkit.Random(t, dtype, 1, dims...) }
	x, y := random(tensor.Float32, 8, testkit.Width), random(tensor.Float32, 8, 1)
	sequences := random(tensor.Float32, 8, testkit.Width)
	sequences.SetLoD([][]int64{{0, 5, 8}})
	cases := map[string]struct {
		feed     executor.Feed
		fetch    string
		kind     fault.Kind
		variable string
	}{
		"missing":          {executor.Feed{"x": x}, m.Loss, fault.NotFound, "y"},
		"unknown":          {executor.Feed{"x": x, "y": y, "z": y}, m.Loss, fault.NotFound, "z"},
		"too narrow":       {executor.Feed{"x": random(tensor.Float32, 8, 5), "y": y}, m.Loss, fault.ShapeMismatch, "x"},
		"other rank":       {executor.Feed{"x": random(tensor.Float32, 8), "y": y}, m.Loss, fault.ShapeMismatch, "x"},
		"other type":       {executor.Feed{"x": random(tensor.Float64, 8, testkit.Width), "y": y}, m.Loss, fault.TypeMismatch, "x"},
		"rows that differ": {executor.Feed{"x": x, "y": random(tensor.Float32, 7, 1)}, m.Loss, fault.ShapeMismatch, "y"},
		"no rows": {executor.Feed{"x": random(tensor.Float32, 0, testkit.Width), "y": random(tensor.Float32, 0, 1)}, m.Loss, fault.ShapeMismatch,
			"x"},
		"nil":           {executor.Feed{"x": x, "y": nil}, m.Loss, fault.InvalidArgument, "y"},
		"sequences":     {executor.Feed{"x": sequences, "y": y}, m.Loss, fault.ShapeMismatch, "x"},
		"unknown fetch": {executor.Feed{"x": x, "y": y}, "nothing", fault.NotFound, "nothing"},
	}
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 1})
	for step, name := range sortedKeys(cases) {
		c := cases[name]
		_, err := got.Run(bounded(t), m.Program, c.feed, c.fetch)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != c.kind || f.Variable != c.variable {
			t.Errorf("%s: %v, want kind %v of variable %s", name, err, c.kind, c.variable)
		}
		feed := testkit.Batch(t, m.Program, uint64(step), 4)
		a, err := want.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		b, err := got.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		if !testkit.Same(a[0], b[0]) {
			t.Fatalf("after %s: loss %v, want %v", name, b[0].Float32s(), a[0].Float32s())
		}
	}
}
