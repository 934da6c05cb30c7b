package listen_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
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
		if err := stream.Send(&rpc.WatchResponse{Events: []*job.Event{e}, Number: step, Fence: c.fence}); err != nil {
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
	var h *harness
	var j *listen.Job
	begun, done := make(chan struct{}), make(chan struct{})
	h = newHarness(t, listen.Config{}, func(name string) run {
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
	h := &harness{store: cluster.NewMemory()}
	newHarnessIn(t, h, listen.Config{Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		registry, err := h.store.Open(spec.Prefix)
		return deaf{registry}, err
	}}, nil)
	j := h.begin(t, reading(t))
	if err := j.Wait(bounded(t)); err != nil || startsOf(j) != "1 1 1 1 1" || h.started.Load() != 5 {
		t.Errorf("%v after starts %s, in all %d", err, startsOf(j), h.started.Load())
	}
}

// brief is a coordinator that tells steps in two streams, between which it forgets some, and then ends. The first one fails.
type brief struct {
	rpc.UnimplementedCoordinatorServer
	start    uint64
	mu       *sync.Mutex
	requests []*rpc.WatchRequest
	asked    sync.Once
	heard    chan struct{} // closed when the last queues have been asked for
	told     chan struct{} // closed when all has been told
}

func (c *brief) Watch(m *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	c.mu.Lock()
	c.requests = append(c.requests, m)
	visit := len(c.requests)
	c.mu.Unlock()
	send := func(number uint64) error {
		e := &job.Event{What: &job.Event_Step{Step: &job.Step{Step: 10*c.start + number, Rows: 5}}}
		return stream.Send(&rpc.WatchResponse{Events: []*job.Event{e}, Number: number, Fence: c.start + 1})
	}
	switch visit {
	case 1:
		for number := range uint64(3) {
			if err := send(number); err != nil {
				return err
			}
		}
		return fault.New(fault.Internal, "a broken stream")
	case 2:
		state := job.State_FAILED
		if c.start > 0 {
			state = job.State_SUCCEEDED
		}
		last := &job.Event{What: &job.Event_Status{Status: &job.JobStatus{State: state}}}
		if err := send(9); err != nil {
			return err
		}
		if err := stream.Send(&rpc.WatchResponse{Events: []*job.Event{last}, Number: 10, Fence: c.start + 1}); err != nil {
			return err
		}
		close(c.told)
	}
	return nil
}

func (c *brief) Queues(m *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	if !m.Final {
		return fault.New(fault.Unsupported, "a question of another test")
	}
	defer c.asked.Do(func() { close(c.heard) })
	return wire.Send(stream, &rpc.QueuesResponse{Generation: 100 + c.start})
}

// A stream that breaks is taken up where it was, what was missed is counted and said, and
// what is known in the end is what the last coordinator said, not one before.
func TestLastOfTwoCoordinators(t *testing.T) {
	t.Parallel()
	var h *harness
	var mu sync.Mutex
	var coordinators []*brief
	log, done := &strings.Builder{}, make(chan struct{})
	h = newHarness(t, listen.Config{Log: slog.New(slog.NewTextHandler(locked{&mu, log}, nil))}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			if name != "coordinator" {
				select {
				case <-done:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			c := &brief{start: uint64(spec.Start), mu: &mu, heard: make(chan struct{}), told: make(chan struct{})}
			mu.Lock()
			coordinators = append(coordinators, c)
			mu.Unlock()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				for _, said := range []chan struct{}{c.heard, c.told} {
					select {
					case <-said:
					case <-ctx.Done():
					}
				}
				cancel()
			}()
			err := serveCoordinator(ctx, h.store, spec, c)
			if spec.Start == 0 {
				return fault.New(fault.LostMember, "killed by a tester")
			}
			close(done)
			return err
		}
	})
	j := h.begin(t, reading(t))
	if err := j.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if _, steps := statesOf(t, serve(t, h.Manager), j); fmt.Sprint(steps) != "[0 1 2 9 10 11 12 19]" || j.Status().Steps != 20 ||
		j.Status().Records != 40 {
		t.Errorf("told steps %v, %v", steps, j.Status())
	}
	if q := j.Show(bounded(t)).Queues; q.GetGeneration() != 101 {
		t.Errorf("the last queues are %v", q)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, want := range []string{"0 0, 1 3", "1 11, 2 3"} {
		first, second := coordinators[i].requests[0], coordinators[i].requests[1]
		if got := fmt.Sprintf("%d %d, %d %d", first.Fence, first.From, second.Fence, second.From); got != want {
			t.Errorf("coordinator %d was asked for %s, want %s", i, got, want)
		}
	}
	if strings.Count(log.String(), "missed=6") != 2 || !strings.Contains(log.String(), "a broken stream") {
		t.Errorf("logged\n%s", log)
	}
}

// locked is a writer for several goroutines.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
