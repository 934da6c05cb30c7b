package listen_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
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

// A house is a manager whose roles are goroutines, and counts them.
type house struct {
	*listen.Manager
	store   *cluster.Memory
	wrap    func(launch.Launcher) launch.Launcher // nil: nothing
	started atomic.Int32
}

// run is what a role does.
type run func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error

// newHouse starts a manager. instead, which may be nil, is asked what a role does; nil lets it be the real one.
func newHouse(t testing.TB, config listen.Config, instead func(name string) run) *house {
	t.Helper()
	return newHouseIn(t, &house{store: cluster.NewMemory()}, config, instead)
}

// newHouseIn is newHouse for a house that has its store.
func newHouseIn(t testing.TB, h *house, config listen.Config, instead func(name string) run) *house {
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
func (h *house) real(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
	registry, err := h.store.Open(spec.Prefix)
	if err != nil {
		return err
	}
	defer registry.Close()
	return role.Run(ctx, spec, role.Options{Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil))})
}

// all makes every role do the same.
func all(do run) func(string) run { return func(string) run { return do } }

// started begins a job.
func (h *house) begin(t testing.TB, spec *job.JobSpec) *listen.Job {
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
	service := wire.NewServer()
	rpc.RegisterListenerServer(service, &listen.Server{Manager: m, Version: "test", Node: "here"})
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, service, port, time.Second) }()
	conn, err := wire.Dial(port.Addr().String())
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
