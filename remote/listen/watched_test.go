package listen_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// telling is a coordinator that tells some steps.
type telling struct {
	rpc.UnimplementedCoordinatorServer
	fence uint64
	steps uint64
	told  func()
}

func (c telling) Watch(m *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	if m.Fence >= c.fence {
		return fmt.Errorf("the watcher knows of fence %d", m.Fence)
	}
	for step := range c.steps {
		e := &job.Event{What: &job.Event_Step{Step: &job.Step{Step: step, Rows: 5}}}
		if err := stream.Send(&rpc.WatchResponse{Event: e, Number: step, Fence: c.fence}); err != nil {
			return err
		}
	}
	c.told()
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (telling) Queues(_ *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	return wire.Send(stream, &rpc.QueuesResponse{Phase: "running", Generation: 3})
}

// A coordinator that was started again continues the stream of steps: none is told twice. What was known last is told after the end.
func TestStepsOutliveTheCoordinator(t *testing.T) {
	t.Parallel()
	var h *house
	var j *listen.Job
	begun, done := make(chan struct{}), make(chan struct{})
	h = newHouse(t, listen.Config{}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			if name == "coordinator" {
				<-begun
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				steps := uint64(3)
				if spec.Start > 0 {
					steps = 5
				}
				told := func() {
					go func() {
						for j.Status().Steps < steps && ctx.Err() == nil {
						}
						cancel()
					}()
				}
				if err := serveCoordinator(ctx, h.store, spec, telling{fence: uint64(spec.Start) + 1, steps: steps, told: told}); err != nil || spec.Start == 0 {
					return errors.Join(fault.New(fault.LostMember, "killed"), err)
				}
				close(done)
				return nil
			}
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	j = h.begin(t, reading(t))
	close(begun)
	if err := j.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	states, steps := statesOf(t, serve(t, h.Manager), j)
	if !slices.Equal(steps, []uint64{0, 1, 2, 3, 4}) || !slices.Equal(states, []string{"STARTING", "RUNNING", "SUCCEEDED"}) {
		t.Errorf("told steps %v and states %v", steps, states)
	}
	if d := j.Show(bounded(t)); d.Queues.GetGeneration() != 3 || d.Status.Records != 25 || d.Spec.Pservers != 2 {
		t.Errorf("known afterwards: %v", d)
	}
}

// deaf is a registry that tells no number of trainers, as one does whose job is being stopped.
type deaf struct{ cluster.Registry }

func (deaf) WatchTrainers(context.Context) (<-chan int, error) {
	none := make(chan int)
	close(none)
	return none, nil
}

// The end of the watch is no decision: what was decided before is not done twice.
func TestEndOfTheWatchStartsNothing(t *testing.T) {
	t.Parallel()
	h := &house{store: cluster.NewMemory()}
	newHouseIn(t, h, listen.Config{Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		registry, err := h.store.Open(spec.Prefix)
		return deaf{registry}, err
	}}, nil)
	j := h.begin(t, reading(t))
	if err := j.Wait(bounded(t)); err != nil || startsOf(j) != "1 1 1 1 1" || h.started.Load() != 5 {
		t.Errorf("%v after starts %s, in all %d", err, startsOf(j), h.started.Load())
	}
}
