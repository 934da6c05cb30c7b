package role_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// A trainer whose lease is lost finds the coordinator until it ends, so that it can report its last steps: its coordinator may have lost its key at the same moment, and take it anew at another
// address.
func TestLastReportsFindTheCoordinator(t *testing.T) {
	store := cluster.NewMemory()
	specs := roleSpecs(t, 1<<20)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	if err := open(t, store).SetDesired(ctx, 2); err != nil {
		t.Fatal(err)
	}
	gone := &goesAway{addresses: make(chan string), given: make(chan context.Context, 1)}
	untold := make(chan struct{})
	ends := make(chan ended, len(specs))
	for _, s := range specs {
		registry, log := open(t, store), io.Discard
		if s.Role == job.Role_TRAINER && s.Index == 1 {
			gone.Registry = registry
			registry = gone
			log = &sees{text: "may be untold", then: func() { close(untold) }}
		}
		go func() {
			ends <- ended{role.Name(s), role.Run(ctx, s, role.Options{Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil))})}
		}()
	}
	follows := <-gone.given
	awaitStep(ctx, t, open(t, store), specs[0].Job)
	for range 4 { // the coordinator stays away, so the trainer waits for it as long as it may; the fourth is taken when the connection has followed the first
		select {
		case gone.addresses <- "":
		case <-ctx.Done():
			t.Fatal("the trainer does not follow the coordinator")
		}
	}
	store.Expire(prefix, cluster.Member{Role: job.Role_TRAINER, Index: 1})
	<-follows.Done()
	select {
	case <-untold:
	default:
		t.Error("the trainer has lost sight of the coordinator before it gave up its last reports")
	}
	for e := range ends {
		if e.name == "trainer-1" {
			if !errors.Is(e.err, fault.Fenced) {
				t.Errorf("it ends with %v", e.err)
			}
			break
		}
	}
	cancel()
}

// awaitStep waits until all trainers have reported a step.
func awaitStep(ctx context.Context, t *testing.T, registry cluster.Registry, id string) {
	t.Helper()
	address, err := registry.Coordinator(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := rpc.NewCoordinatorClient(conn).Watch(ctx, &rpc.WatchRequest{Job: id})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goesAway is a registry of which a test says where the coordinator is, once that was known.
type goesAway struct {
	cluster.Registry
	addresses chan string
	given     chan context.Context // of WatchAddress for the coordinator
}

func (r *goesAway) WatchAddress(ctx context.Context, m cluster.Member) (<-chan string, error) {
	if m.Role != job.Role_COORDINATOR {
		return r.Registry.WatchAddress(ctx, m)
	}
	address, err := r.Coordinator(ctx)
	if err != nil {
		return nil, err
	}
	r.given <- ctx
	out := make(chan string)
	go func() {
		defer close(out)
		for {
			select {
			case out <- address:
			case <-ctx.Done():
				return
			}
			select {
			case address = <-r.addresses:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// A role whose Leave gets no answer sends it again.
func TestLeaveThatIsLost(t *testing.T) {
	store := cluster.NewMemory()
	specs := roleSpecs(t, 1)
	ctx := bounded(t)
	if err := open(t, store).SetDesired(ctx, 2); err != nil {
		t.Fatal(err)
	}
	ends := make(chan ended, len(specs))
	for _, s := range specs {
		registry := &leaveFailsOnce{Registry: open(t, store)}
		go func() { ends <- ended{role.Name(s), role.Run(ctx, s, role.Options{Registry: registry})} }()
	}
	for range specs {
		if e := <-ends; e.err != nil {
			t.Errorf("%s ends with %v", e.name, e.err)
		}
	}
}

// leaveFailsOnce is a registry whose memberships answer the second Leave.
type leaveFailsOnce struct{ cluster.Registry }

func (r *leaveFailsOnce) JoinTrainer(ctx context.Context, rank int) (cluster.Membership, error) {
	m, err := r.Registry.JoinTrainer(ctx, rank)
	return &failsOnce{Membership: m}, err
}

type failsOnce struct {
	cluster.Membership
	once atomic.Bool
}

func (m *failsOnce) Leave(ctx context.Context) error {
	if !m.once.Swap(true) {
		return fault.New(fault.Unavailable, "no answer")
	}
	return m.Membership.Leave(ctx)
}

// A coordinator whose registry stops reporting losses, or the number of trainers, ends and says so: else a job would wait without a reason when a
// member is lost, and would not change when it is scaled.
func TestCoordinatorWithoutReports(t *testing.T) {
	for what, registry := range map[string]func(cluster.Registry) cluster.Registry{
		"members that are lost":        func(r cluster.Registry) cluster.Registry { return noLosses{r} },
		"how many trainers are wanted": func(r cluster.Registry) cluster.Registry { return noScaling{r} },
	} {
		store := cluster.NewMemory()
		specs := roleSpecs(t, 1)
		ctx := bounded(t)
		if err := open(t, store).SetDesired(ctx, 2); err != nil {
			t.Fatal(err)
		}
		err := role.Run(ctx, specs[0], role.Options{Registry: registry(open(t, store))})
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: it ends with %v", what, err)
		}
	}
}

// These are registries whose store refuses to report something.
type (
	noLosses  struct{ cluster.Registry }
	noScaling struct{ cluster.Registry }
)

func (noLosses) WatchLost(context.Context) (<-chan cluster.Member, error) {
	lost := make(chan cluster.Member)
	close(lost)
	return lost, nil
}

func (noScaling) WatchTrainers(context.Context) (<-chan int, error) {
	wanted := make(chan int)
	close(wanted)
	return wanted, nil
}

// A trainer drains while the coordinator that knows it does not answer any more: it counts as lost, or the next coordinator would wait for it for
// ever.
func TestDrainedWithoutAnswer(t *testing.T) {
	store := cluster.NewMemory()
	spec := roleSpecs(t, 1)[3]
	ctx, drain := context.WithCancelCause(bounded(t))
	registry := open(t, store)
	lost, err := registry.WatchLost(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, noAnswers{heard: func() { drain(fault.New(fault.Drained, "terminated")) }})
	address := strings.TrimPrefix(pstest.Serve(t, service).Target(), "passthrough:///")
	for i := range 2 {
		if _, err := registry.JoinServer(bounded(t), i, address); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := registry.LeadCoordinator(bounded(t), address); err != nil {
		t.Fatal(err)
	}
	handle := open(t, store)
	if err := role.Run(ctx, spec, role.Options{Registry: handle}); !errors.Is(err, fault.Drained) {
		t.Errorf("it ends with %v", err)
	}
	handle.Close()
	if m, more := <-lost; !more || m != (cluster.Member{Role: job.Role_TRAINER, Index: int(spec.Index)}) {
		t.Errorf("%v is reported as lost, want the trainer", m)
	}
}

// noAnswers is a coordinator that answers nothing.
type noAnswers struct {
	rpc.UnimplementedCoordinatorServer
	heard func()
}

func (s noAnswers) Join(ctx context.Context, _ *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	s.heard()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (noAnswers) Leave(ctx context.Context, _ *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A trainer that is drained leaves an elastic job, whose other roles go on to the end of the data.
func TestDrainedTrainer(t *testing.T) {
	store := cluster.NewMemory()
	specs := roleSpecs(t, 40)
	specs[0].Spec.Trainers, specs[0].Spec.TrainersMax = 1, 2 // all roles share it
	ctx := bounded(t)
	registry := open(t, store)
	if err := errors.Join(registry.SetDesired(ctx, 2), registry.SetTrainers(ctx, 2)); err != nil {
		t.Fatal(err)
	}
	drained, drain := context.WithCancelCause(ctx)
	defer drain(nil)
	ends := make(chan ended, len(specs))
	for _, s := range specs {
		own, log := ctx, io.Discard
		if s.Role == job.Role_TRAINER && s.Index == 1 {
			own, log = drained, io.Writer(&sees{text: "generation begins", then: func() { drain(fault.New(fault.Drained, "terminated")) }})
		}
		handle := open(t, store)
		go func() {
			ends <- ended{role.Name(s), role.Run(own, s, role.Options{Registry: handle, Log: slog.New(slog.NewTextHandler(log, nil))})}
		}()
	}
	for range specs {
		e := <-ends
		if want := e.name == "trainer-1"; want != errors.Is(e.err, fault.Drained) || !want && e.err != nil {
			t.Errorf("%s ends with %v", e.name, e.err)
		}
	}
}

// sees is a log that calls a function when it contains a text for the first time.
type sees struct {
	text string
	then func()
	once sync.Once
}

func (s *sees) Write(line []byte) (int, error) {
	if strings.Contains(string(line), s.text) {
		s.once.Do(s.then)
	}
	return len(line), nil
}

// A trainer that is drained while it waits for the others ends as drained.
func TestDrainedWhileItWaits(t *testing.T) {
	store := cluster.NewMemory()
	spec := roleSpecs(t, 1)[3]
	ctx, drain := context.WithCancelCause(bounded(t))
	registry := open(t, store)
	lost, err := registry.WatchLost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	handle := open(t, store)
	ended := make(chan error, 1)
	go func() {
		ended <- role.Run(ctx, spec, role.Options{Registry: joined{handle, func() { drain(fault.New(fault.Drained, "terminated")) }}})
	}()
	if err := <-ended; !errors.Is(err, fault.Drained) {
		t.Errorf("it ends with %v", err)
	}
	for m := range lost { // ends with ctx
		t.Errorf("%v counts as lost", m)
	}
}

// joined is a registry that calls then when a trainer has joined and looks for the coordinator.
type joined struct {
	cluster.Registry
	then func()
}

func (r joined) Coordinator(ctx context.Context) (string, error) {
	r.then()
	return r.Registry.Coordinator(ctx)
}

// When the process that started a role is gone, the role counts as lost at once: nobody else tells of its end. A role that is told to end gives its place up.
func TestOrphanIsLost(t *testing.T) {
	store := cluster.NewMemory()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	watcher := open(t, store)
	if err := watcher.SetDesired(ctx, 2); err != nil {
		t.Fatal(err)
	}
	lost, err := watcher.WatchLost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	specs := roleSpecs(t, 1<<20)
	end, ends := map[string]context.CancelCauseFunc{}, map[string]chan error{}
	for _, s := range specs {
		own, cancel := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		end[role.Name(s)], ends[role.Name(s)] = cancel, ended
		registry := open(t, store)
		go func() {
			defer close(ended)
			ended <- role.Run(own, s, role.Options{Registry: registry})
		}()
	}
	awaitStep(ctx, t, watcher, specs[0].Job)
	end["trainer-1"](fault.E(fault.Canceled, fault.Got("a command")))
	<-ends["trainer-1"]
	end["pserver-0"](role.ErrOrphan)
	if m := <-lost; m != (cluster.Member{Role: job.Role_PSERVER}) {
		t.Errorf("%v is lost", m)
	}
	cancel()
	for _, ended := range ends {
		for err := range ended {
			if err == nil {
				t.Error("a role has ended well")
			}
		}
	}
}
