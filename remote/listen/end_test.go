package listen_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// endsWith waits for a job that must fail.
func endsWith(t *testing.T, j *listen.Job) *fault.Fault {
	t.Helper()
	err := j.Wait(bounded(t))
	var f *fault.Fault
	if !errors.As(err, &f) || j.Status().State != job.State_FAILED {
		t.Fatalf("the job ends %v with %v", j.Status().State, err)
	}
	return f
}

// A loss that is no number ends the job, and the user is told which op made it so.
func TestNotANumber(t *testing.T) {
	t.Parallel()
	m := layers.NewModel()
	v := layers.Read(layers.Batch(layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)),
		layers.Field("y", layers.Dims(1))), 5))
	bad := layers.Log(layers.Scale(layers.Square(layers.FC(v[0], 1)), -1, -1))
	loss := layers.Mean(bad, layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	spec := reading(t)
	spec.Program = encoded(t, testkit.Built(t, m, loss)).Program
	f := endsWith(t, newHarness(t, listen.Config{}, nil).begin(t, spec))
	if f.Kind != fault.NotFinite || f.Op != "log" || f.Variable != bad.Name() || !strings.Contains(f.Line, "end_test.go") {
		t.Errorf("%v: op %q, variable %q, line %q", f, f.Op, f.Variable, f.Line)
	}
}

// A file that is not there is named.
func TestMissingData(t *testing.T) {
	t.Parallel()
	spec := reading(t)
	spec.Data[0].Globs = []string{"/nowhere/train-*"}
	f := endsWith(t, newHarness(t, listen.Config{}, nil).begin(t, spec))
	if f.Kind != fault.NotFound || !strings.Contains(f.Error(), "/nowhere/train-*") {
		t.Errorf("%v", f)
	}
}

// Of several failures the job tells the one that explains the others, and what every role ended with.
func TestCauseOfFailure(t *testing.T) {
	t.Parallel()
	fails := func(kind fault.Kind, what string) run {
		return func(context.Context, *job.RoleSpec, io.Writer) error { return fault.New(kind, what) }
	}
	cases := map[string]struct {
		roles map[string]run // what they do; the others are idle
		kind  fault.Kind
		says  string
	}{
		"one fails":   {map[string]run{"trainer-1": fails(fault.Corrupt, "bad bytes")}, fault.Corrupt, "trainer 1"},
		"one is lost": {map[string]run{"pserver-1": fails(fault.LostMember, "killed")}, fault.LostMember, "pserver 1"},
		"a loss tells more": {map[string]run{"trainer-0": fails(fault.Unavailable, "no answer"), "pserver-1": fails(fault.LostMember, "killed")},
			fault.LostMember, "pserver 1"},
		"one panics": {map[string]run{"trainer-0": func(context.Context, *job.RoleSpec, io.Writer) error { panic("oh") }}, fault.Internal, "oh"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newHarness(t, listen.Config{}, func(name string) run {
				if r := c.roles[name]; r != nil {
					return r
				}
				return idle
			}).begin(t, fed(t))
			f := endsWith(t, j)
			if f.Kind != c.kind || !strings.Contains(f.Error(), c.says) {
				t.Errorf("%v, want kind %v with %q", f, c.kind, c.says)
			}
			for _, r := range j.Status().Roles {
				if r.State == job.State_RUNNING || r.State == job.State_FAILED && (r.Failure == nil || r.ExitCode == 0) {
					t.Errorf("%v %d is %v with %v, exit code %d", r.Role, r.Index, r.State, r.Failure, r.ExitCode)
				}
			}
		})
	}
}

// A loss that another start has mended does not explain a failure that comes after it.
func TestMendedLossIsNoCause(t *testing.T) {
	t.Parallel()
	again := make(chan struct{})
	j := newHarness(t, listen.Config{}, func(name string) run {
		switch name {
		case "trainer-1":
			return func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
				if spec.Start == 0 {
					return fault.New(fault.LostMember, "killed long ago")
				}
				close(again)
				return idle(ctx, spec, log)
			}
		case "coordinator":
			return func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
				select {
				case <-again:
					return fault.New(fault.DeadlineExceeded, "trainer 0 is missing")
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return idle
	}).begin(t, reading(t))
	if f := endsWith(t, j); f.Kind != fault.DeadlineExceeded || !strings.Contains(f.Error(), "trainer 0 is missing") {
		t.Errorf("%v", f)
	}
}

// A gate is a registry that calls functions before Forget and Remove, and before Close.
type gate struct {
	cluster.Registry
	forget, close func()
}

func (g gate) Forget(ctx context.Context) error {
	g.forget()
	return g.Registry.Forget(ctx)
}

func (g gate) Remove(ctx context.Context, owner cluster.Membership) error {
	g.forget()
	return g.Registry.Remove(ctx, owner)
}

func (g gate) Close() error {
	g.close()
	return g.Registry.Close()
}

// gated lets the manager's handles pass through gates.
func gated(h *harness, forget, close func()) listen.Config {
	return listen.Config{Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		r, err := h.store.Open(spec.Prefix)
		return gate{r, forget, close}, err
	}}
}

// A step that is fed while a failed job is cleared away is told why the job has failed.
func TestStepOfAJobThatEnds(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.05))
	broken := func(name string) run {
		if name != "coordinator" {
			return idle
		}
		return func(context.Context, *job.RoleSpec, io.Writer) error { return fault.New(fault.NotFinite, "broken") }
	}
	for _, where := range []string{"forget", "close"} {
		t.Run(where, func(t *testing.T) {
			reached, open := make(chan struct{}, 10), make(chan struct{})
			pass, stop := func() {}, func() { reached <- struct{}{}; <-open }
			calls := 0
			second := func() {
				if calls++; calls == 2 { // the first is Forget before the job begins, the second Remove
					stop()
				}
			}
			h := &harness{store: cluster.NewMemory()}
			config := gated(h, second, pass)
			if where == "close" {
				config = gated(h, pass, stop)
			}
			h = newHarnessIn(t, h, config, broken)
			client := serve(t, h.Manager)
			j := h.begin(t, fed(t))
			<-reached
			stream, err := client.RunStep(bounded(t))
			if err != nil {
				t.Fatal(err)
			}
			step := &rpc.StepRun{Feed: nil, Fetch: []string{m.Loss}}
			if err := wire.SendAs(stream, &rpc.Identity{Job: j.ID}, step); err != nil {
				t.Fatal(err)
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			told := make(chan error, 1)
			go func() { _, err := stream.Recv(); told <- wire.FromStatus("", err) }()
			if _, err := client.List(bounded(t), &rpc.ListRequest{}); err != nil {
				t.Fatal(err)
			}
			close(open)
			if err := <-told; !errors.Is(err, fault.NotFinite) {
				t.Errorf("the step is told %v", err)
			}
		})
	}
}

// fenced is a coordinator that tells its failure and ends.
type fenced struct {
	rpc.UnimplementedCoordinatorServer
	told func()
}

func (c fenced) Watch(_ *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	defer c.told()
	failed := &job.JobStatus{State: job.State_FAILED, Failure: wire.FailureOf(fault.New(fault.Fenced, "a lost lease"))}
	return stream.Send(&rpc.WatchResponse{Events: []*job.Event{{What: &job.Event_Status{Status: failed}}}})
}

// What one coordinator has failed of is not the end of a job that another has ended well, although that one was not heard.
func TestFailureOfAnEarlierCoordinator(t *testing.T) {
	h, again := &harness{store: cluster.NewMemory()}, make(chan struct{})
	newHarnessIn(t, h, listen.Config{}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			switch {
			case name == "coordinator" && spec.Start == 0:
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return errors.Join(fault.New(fault.Fenced, "a lost lease"), serveCoordinator(ctx, h.store, spec, fenced{told: cancel}))
			case name == "coordinator":
				close(again)
				return nil
			}
			select {
			case <-again:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err := h.begin(t, reading(t)).Wait(bounded(t)); err != nil {
		t.Error(err)
	}
}

// A job that fails because its roles were interrupted is not taken for one that its user has interrupted.
func TestFailureIsNoInterruption(t *testing.T) {
	spec := reading(t)
	spec.MaxRestarts = -1
	f := endsWith(t, newHarness(t, listen.Config{}, func(name string) run {
		if name == "trainer-0" {
			return func(context.Context, *job.RoleSpec, io.Writer) error {
				return fault.E(fault.Canceled, fault.At("trainer 0"), fault.Cause(fault.New(fault.Fenced, "a lost lease")))
			}
		}
		return idle
	}).begin(t, spec))
	if f.Kind.ExitCode() == fault.Canceled.ExitCode() || !strings.Contains(f.Error(), "a lost lease") {
		t.Errorf("%v, exit code %d", f, f.Kind.ExitCode())
	}
}

// A listener that slept while its job ended has not heard the last steps. It counts them all the same, and leaves nothing of the job in the registry.
func TestStepsThatNobodyHeard(t *testing.T) {
	h := newHarness(t, listen.Config{}, nil)
	silent := func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
		if spec.Role != job.Role_COORDINATOR {
			return nil
		}
		registry, err := h.store.Open(spec.Prefix)
		if err != nil {
			return err
		}
		defer registry.Close()
		leader, err := registry.LeadCoordinator(ctx, "127.0.0.1:1") // where nobody is
		if err != nil {
			return err
		}
		last, err := proto.Marshal(&state.Steps{Steps: 41})
		if err == nil {
			err = registry.State(leader).Commit(ctx, []cluster.Change{{Key: coordinator.StepsEntry, Value: last}})
		}
		return errors.Join(err, leader.Leave(ctx))
	}
	asleep := newHarnessIn(t, &harness{store: h.store}, listen.Config{}, func(string) run { return silent })
	j := asleep.begin(t, reading(t))
	if err := j.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.Steps != 41 || s.State != job.State_SUCCEEDED {
		t.Errorf("%v after %d steps, want 41", s.State, s.Steps)
	}
	registry, err := h.store.Open(cluster.Prefix("listener"))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if left, others, err := registry.RemoveAbandoned(bounded(t)); len(left) > 0 || others || err != nil {
		t.Errorf("left in the registry: %q, others %v, %v", left, others, err)
	}
}

// A job that is stopped while its model is saved says so, because the user may believe it to be there.
func TestStopWhileTheStateIsSaved(t *testing.T) {
	h := newHarness(t, listen.Config{}, nil)
	elected := make(chan struct{})
	saving := func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
		if spec.Role == job.Role_COORDINATOR {
			registry, err := h.store.Open(spec.Prefix)
			if err != nil {
				return err
			}
			defer registry.Close()
			leader, err := registry.LeadCoordinator(ctx, "127.0.0.1:1")
			if err != nil {
				return err
			}
			saver, err := proto.Marshal(&state.Saver{Rank: 0}) // no bytes
			if err == nil {
				err = registry.State(leader).Commit(ctx, []cluster.Change{{Key: coordinator.SaverEntry, Value: saver}})
			}
			if err != nil {
				return err
			}
			close(elected)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	spec := reading(t)
	spec.Save = t.TempDir()
	j := newHarnessIn(t, &harness{store: h.store}, listen.Config{}, func(string) run { return saving }).begin(t, spec)
	<-elected
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	err := j.Wait(bounded(t))
	if s := j.Status(); s.State != job.State_STOPPED || !errors.Is(err, fault.Canceled) || !strings.Contains(err.Error(), "stopped by the user: got a trained state that was still being saved to "+spec.Save) {
		t.Errorf("%v: %v", s.State, err)
	}
}
