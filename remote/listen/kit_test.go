package listen_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them comes near it.
const patience = time.Minute

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A harness is a manager whose roles are goroutines, and counts them.
type harness struct {
	*listen.Manager
	store   *cluster.Memory
	wrap    func(launch.Launcher) launch.Launcher // nil: nothing
	started atomic.Int32
}

// run is what a role does.
type run func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error

// newHarness starts a manager. instead, which may be nil, is asked what a role does; nil lets it be the real one.
func newHarness(t testing.TB, config listen.Config, instead func(name string) run) *harness {
	t.Helper()
	return newHarnessIn(t, &harness{store: cluster.NewMemory()}, config, instead)
}

// newHarnessIn is newHarness for a harness that has its store.
func newHarnessIn(t testing.TB, h *harness, config listen.Config, instead func(name string) run) *harness {
	t.Helper()
	store := h.store
	if config.Registry == nil {
		config.Registry = func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) { return store.Open(spec.Prefix) }
	}
	config.Launcher = launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
		h.started.Add(1)
		if instead != nil {
			if run := instead(role.Name(spec)); run != nil {
				return run(ctx, spec, log)
			}
		}
		return h.real(ctx, spec, log)
	})
	if h.wrap != nil {
		config.Launcher = h.wrap(config.Launcher)
	}
	h.Manager = listen.NewManager(config)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// real is what a role does outside of tests.
func (h *harness) real(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
	registry, err := h.store.Open(spec.Prefix)
	if err != nil {
		return err
	}
	defer registry.Close()
	return role.Run(ctx, spec, role.Options{Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil)),
		Report: launch.ReportOf(ctx)})
}

// all makes every role do the same.
func all(do run) func(string) run { return func(string) run { return do } }

// begin starts a job.
func (h *harness) begin(t testing.TB, spec *job.JobSpec) *listen.Job {
	t.Helper()
	j, err := h.Start(bounded(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// serve opens the service of a manager and connects to it.
func serve(t testing.TB, m *listen.Manager) rpc.ListenerClient {
	t.Helper()
	port, err := wire.Listen(bounded(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := wire.NewServer(nil)
	rpc.RegisterListenerServer(service, &listen.Server{Manager: m, Version: "test", Node: "here"})
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, service, port, time.Second) }()
	conn, err := wire.Dial(port.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return rpc.NewListenerClient(conn)
}

// eventually waits for a condition.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	ctx := bounded(t)
	for !ok() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Fatal("it does not happen")
		}
	}
}

// idle is a role that waits for its end.
func idle(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
	<-ctx.Done()
	return ctx.Err()
}

// encoded puts a program into a job of two trainers and two pservers.
func encoded(t testing.TB, m testkit.Model) *job.JobSpec {
	t.Helper()
	b, err := m.Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &job.JobSpec{Program: b, Trainers: 2, Pservers: 2, MinBlockSize: 4, StartDeadline: durationpb.New(patience),
		RoundDeadline: durationpb.New(patience)}
}

// reading is a job that reads 20 records in batches of 5.
func reading(t testing.TB) *job.JobSpec {
	t.Helper()
	spec := encoded(t, testkit.Reading(t, 5, optimizer.SGD(0.05)))
	for name, globs := range testkit.Samples(t, t.TempDir(), 20) {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	spec.Fetch = []string{"loss"}
	return spec
}

// fed is a job that is fed.
func fed(t testing.TB) *job.JobSpec {
	t.Helper()
	spec := encoded(t, testkit.Fed(t, optimizer.SGD(0.05)))
	spec.Fed = true
	return spec
}

// hanging is a coordinator that never answers.
type hanging struct {
	rpc.UnimplementedCoordinatorServer
	release chan struct{}
}

func (h hanging) Queues(_ *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	select {
	case <-stream.Context().Done():
	case <-h.release:
	}
	return fault.New(fault.Canceled, "released")
}

func (h hanging) Join(ctx context.Context, _ *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	select {
	case <-ctx.Done():
	case <-h.release:
	}
	return nil, fault.New(fault.Canceled, "released")
}

// serveCoordinator is the life of a coordinator of the test.
func serveCoordinator(ctx context.Context, store *cluster.Memory, spec *job.RoleSpec, service rpc.CoordinatorServer) error {
	port, err := wire.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry, err := store.Open(spec.Prefix)
	if err != nil {
		return err
	}
	defer registry.Close()
	m, err := registry.LeadCoordinator(ctx, port.Addr().String())
	if err != nil {
		return err
	}
	s := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(s, service)
	if err := wire.Serve(ctx, s, port, time.Second); err != nil {
		return err
	}
	return m.Leave(context.WithoutCancel(ctx))
}

// A trigger is told of the points of a job's life, and fires at one of them.
type trigger struct {
	left atomic.Int64
	fire func()
	wait int  // how often others may run before the point is passed
	hold bool // the point is passed when the job is over
}

func (f *trigger) point(ctx context.Context) {
	if f.left.Add(-1) != 0 {
		return
	}
	f.fire()
	for range f.wait {
		runtime.Gosched()
	}
	if f.hold {
		<-ctx.Done()
	}
}

// triggering is a registry whose calls are points.
type triggering struct {
	cluster.Registry
	*trigger
}

func (f triggering) Live(ctx context.Context) (map[cluster.Member]id.Incarnation, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Live(ctx)
}

func (f triggering) Forget(ctx context.Context) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Forget(ctx)
}

func (f triggering) Claim(ctx context.Context) (cluster.Membership, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Claim(ctx)
}

func (f triggering) Remove(ctx context.Context, owner cluster.Membership) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Remove(ctx, owner)
}

func (f triggering) SetTrainers(ctx context.Context, n int) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.SetTrainers(ctx, n)
}

func (f triggering) WatchTrainers(ctx context.Context) (<-chan int, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.WatchTrainers(ctx)
}

func (f triggering) WatchLost(ctx context.Context) (<-chan cluster.Member, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.WatchLost(ctx)
}

func (f triggering) RevokeLease(ctx context.Context, m cluster.Member, incarnation id.Incarnation) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.RevokeLease(ctx, m, incarnation)
}

func (f triggering) WatchAddress(ctx context.Context, m cluster.Member) (<-chan string, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.WatchAddress(ctx, m)
}

// triggeringLauncher is a launcher whose starts are points.
type triggeringLauncher struct {
	launch.Launcher
	*trigger
}

func (f triggeringLauncher) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	over, cancel := context.WithCancel(ctx)
	cancel() // ctx does not end a start
	f.point(over)
	defer f.point(over)
	return f.Launcher.Start(ctx, spec, log)
}
