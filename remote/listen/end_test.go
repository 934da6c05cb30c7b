package listen_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// A gate is a registry of which one call waits.
type gate struct {
	cluster.Registry
	forget, close func()
}

func (g gate) Forget(ctx context.Context) error {
	g.forget()
	return g.Registry.Forget(ctx)
}

func (g gate) Close() error {
	g.close()
	return g.Registry.Close()
}

// gated lets the manager's handles pass through gates.
func gated(h *house, forget, close func()) listen.Config {
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
				if calls++; calls == 2 { // the first is before the job begins
					stop()
				}
			}
			h := &house{store: cluster.NewMemory()}
			config := gated(h, second, pass)
			if where == "close" {
				config = gated(h, pass, stop)
			}
			h = newHouseIn(t, h, config, broken)
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
	return stream.Send(&rpc.WatchResponse{Event: &job.Event{What: &job.Event_Status{Status: failed}}})
}

// What one coordinator has failed of is not the end of a job that another has ended well, although that one was not heard.
func TestFailureOfAnEarlierCoordinator(t *testing.T) {
	h, again := &house{store: cluster.NewMemory()}, make(chan struct{})
	newHouseIn(t, h, listen.Config{}, func(name string) run {
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
