package listen_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

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
		return stream.Send(&rpc.WatchResponse{Event: e, Number: number, Fence: c.start + 1})
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
		if err := stream.Send(&rpc.WatchResponse{Event: last, Number: 10, Fence: c.start + 1}); err != nil {
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
	var h *house
	var mu sync.Mutex
	var coordinators []*brief
	log, done := &strings.Builder{}, make(chan struct{})
	h = newHouse(t, listen.Config{Log: slog.New(slog.NewTextHandler(locked{&mu, log}, nil))}, func(name string) run {
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
