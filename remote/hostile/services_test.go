package hostile_test

import (
	"context"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rounds is how many servers of each kind are lied to.
const rounds = 6

func mode(sync bool) string {
	if sync {
		return "sync"
	}
	return "async"
}

func TestParameterServer(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(mode(sync), func(t *testing.T) {
			for seed := range uint64(rounds) {
				s := rig.Start(t, rig.Config(3), rig.SGD(0, sync, 0.1, 2))
				if seed%2 == 0 { // nobody ends the generation, so that lies about contributions are believed for longer
					lie(t, seed, rig.Identity, without(rpc.ParameterServer_ServiceDesc, "Freeze", "Resume", "Complete"), s.Server, "w0", "w0@GRAD", "w0@GRAD")
				}
				lie(t, seed, rig.Identity, &rpc.ParameterServer_ServiceDesc, s.Server, "w0", "w0@GRAD")
				s.Stop()
			}
		})
	}
}

func TestCoordinator(t *testing.T) {
	for name, c := range map[string]coordinator.Config{
		"sync": {Sync: true, Trainers: 1, TrainersMax: 3}, "async": {Trainers: 1, TrainersMax: 3},
		"fed": {Sync: true, Trainers: 1, Fed: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(rounds) {
				lieToCoordinator(t, seed, c)
			}
		})
	}
}

func lieToCoordinator(t *testing.T, seed uint64, c coordinator.Config) {
	registry, err := cluster.NewMemory().Open(cluster.Prefix(rig.Identity.Job))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	member, err := registry.LeadCoordinator(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	server := rig.New(t, rig.Config(3))
	server.Serve(rig.SGD(0, c.Sync, 0.1, 2))
	c.Identity, c.Passes, c.MaxFailures, c.TaskTimeout = rig.Identity, 2, 2, [2]time.Duration{time.Hour, time.Hour}
	c.StartDeadline, c.RejoinDeadline, c.Live = time.Hour, time.Hour, registry.Live
	c.Program = testkit.Fed(t, optimizer.SGD(0.1)).Program
	c.Servers = []rpc.ParameterServerClient{server.Client}
	c.Merge = func(reports []*rpc.TrainerStep) ([]*job.Value, error) { return reports[0].Fetched, nil }
	s := coordinator.New(c)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(context.Background(), coordinator.Lead{Fence: member.Fence(), State: registry.State(member)})
	}()
	identity := begin(t, s, registry)
	if seed%2 == 0 { // as above
		lie(t, seed, identity, without(rpc.Coordinator_ServiceDesc, "Join", "Leave", "RequestSaveModel", "CloseFeed"), s, testkit.Dataset, testkit.Dataset,
			"x", "y")
	}
	lie(t, seed, identity, &rpc.Coordinator_ServiceDesc, s, testkit.Dataset, "x", "y", "loss")
	s.Fail(fault.New(fault.Canceled, "the test ends"))
	<-ended
	server.Stop()
}

// begin lets an honest trainer begin the job, and returns its identity.
func begin(t *testing.T, s *coordinator.Server, registry cluster.Registry) wire.Identity {
	member, err := registry.JoinTrainer(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	id := rig.Identity
	id.Generation, id.Fence = 0, 0
	joined, err := s.Join(t.Context(), &rpc.JoinRequest{Id: id.Of(0, 0, 0), Incarnation: member.Fence()})
	if err != nil {
		t.Fatal(err)
	}
	id.Generation, id.Fence = joined.Generation, joined.Fence
	data := &rpc.Dataset{Name: testkit.Dataset, Files: []*rpc.DataFile{{Path: "train-0", Records: 100, Bytes: 1000}}}
	if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id.Of(0, 0, 0), Dataset: data}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestListener(t *testing.T) {
	store := cluster.NewMemory()
	began := make(chan struct{}, 1)
	launcher := launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		select {
		case began <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	})
	open := func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) { return store.Open(spec.Prefix) }
	b, err := testkit.Reading(t, 5, optimizer.SGD(0.1)).Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(rounds) {
		m := listen.NewManager(listen.Config{Launcher: launcher, Registry: open})
		spec := &job.JobSpec{Name: rig.Identity.Job, Program: b, TrainersMax: 3,
			Data: []*job.DataBinding{{Dataset: testkit.Dataset, Globs: []string{"nowhere"}}}}
		j, err := m.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		lie(t, seed, rig.Identity, &rpc.Listener_ServiceDesc, &listen.Server{Manager: m, Local: launcher}, j.ID)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
