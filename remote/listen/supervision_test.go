package listen_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// startsOf returns how often each role of a job was started.
func startsOf(j *listen.Job) string {
	var out []string
	for _, r := range j.Status().Roles {
		out = append(out, fmt.Sprint(r.Starts))
	}
	return strings.Join(out, " ")
}

// statesOf returns the states that a job has told, in order.
func statesOf(t *testing.T, client rpc.ListenerClient, j *listen.Job) (states []string, steps []uint64) {
	t.Helper()
	stream, err := client.Watch(bounded(t), &rpc.JobRequest{Job: j.ID})
	if err != nil {
		t.Fatal(err)
	}
	follow(t, stream.Recv, func(e *job.Event) {
		if s := e.GetStatus(); s != nil {
			states = append(states, s.State.String())
			return
		}
		steps = append(steps, e.GetStep().Step)
	})
	return states, steps
}

// loses makes one role fail in its first starts; the others, and the role afterwards, wait until it has been started often enough.
func loses(name string, times int, err error) func(string) run {
	recovered := make(chan struct{})
	return func(role string) run {
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			if role == name {
				if int(spec.Start) < times {
					return err
				}
				if int(spec.Start) == times {
					close(recovered)
				}
			}
			select {
			case <-recovered:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// What another start may mend is mended by one, and the job ends well.
func TestLostRolesAreStartedAgain(t *testing.T) {
	t.Parallel()
	for role, starts := range map[string]string{"trainer-1": "1 1 1 1 3", "coordinator": "3 1 1 1 1"} {
		for _, kind := range []fault.Kind{fault.LostMember, fault.Fenced, fault.Internal} {
			j := newHouse(t, listen.Config{}, loses(role, 2, fault.New(kind, "some end"))).begin(t, reading(t))
			if err := j.Wait(bounded(t)); err != nil || startsOf(j) != starts {
				t.Errorf("%s, %v: %v after starts %s", role, kind, err, startsOf(j))
			}
		}
	}
}

// Restarts have a limit, and the error names role, number and the last failure.
func TestTooManyRestarts(t *testing.T) {
	t.Parallel()
	for restarts, says := range map[int32][]string{2: {"trainer 1", "2 restarts", "some end"}, -1: {"trainer 1", "some end"}} {
		spec := reading(t)
		spec.MaxRestarts = restarts
		f := endsWith(t, newHouse(t, listen.Config{}, loses("trainer-1", 1000, fault.New(fault.LostMember, "some end"))).begin(t, spec))
		for _, s := range says {
			if f.Kind != fault.LostMember || !strings.Contains(f.Error(), s) {
				t.Errorf("max_restarts %d: %v", restarts, f)
			}
		}
	}
}

// The parameters of a pserver are gone with it: every role is stopped and started again.
func TestLostPServerBeginsTheJobAnew(t *testing.T) {
	t.Parallel()
	h := newHouse(t, listen.Config{}, loses("pserver-1", 1, fault.New(fault.LostMember, "some end")))
	j := h.begin(t, reading(t))
	if err := j.Wait(bounded(t)); err != nil || startsOf(j) != "2 2 2 2 2" {
		t.Errorf("%v after starts %s", err, startsOf(j))
	}
	if states, _ := statesOf(t, serve(t, h.Manager), j); !slices.Equal(states, []string{"STARTING", "STARTING", "SUCCEEDED"}) {
		t.Errorf("told %v", states)
	}
}

// A role that hangs keeps its process, but not its lease: it is killed and started again.
func TestLostLeaseKills(t *testing.T) {
	t.Parallel()
	var h *house
	joined, again := make(chan struct{}), make(chan struct{})
	h = newHouse(t, listen.Config{}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			if name == "trainer-0" && spec.Start == 1 {
				close(again)
			}
			if name == "trainer-0" && spec.Start == 0 {
				registry, err := h.store.Open(spec.Prefix)
				if err != nil {
					return err
				}
				defer registry.Close()
				if _, err := registry.JoinTrainer(ctx, 0); err != nil {
					return err
				}
				close(joined)
				<-ctx.Done() // deaf to the loss of its lease
				return ctx.Err()
			}
			select {
			case <-again:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	j := h.begin(t, reading(t))
	<-joined
	eventually(t, func() bool { // the lease is seen some time after it was taken
		h.store.Expire(cluster.Prefix(j.ID), cluster.Member{Role: job.Role_TRAINER})
		waits := j.Why(bounded(t)).Waits
		return j.Ended() || len(waits) > 0 && strings.Contains(waits[0].What, "trainer 0, whose lease is lost")
	})
	if err := j.Wait(bounded(t)); err != nil || startsOf(j) != "1 1 1 2 1" {
		t.Errorf("%v after starts %s", err, startsOf(j))
	}
}

// An elastic job is given trainers and loses them while it runs, within its bounds.
func TestScale(t *testing.T) {
	t.Parallel()
	h := newHouse(t, listen.Config{}, all(idle))
	client := serve(t, h.Manager)
	spec := reading(t)
	spec.TrainersMax = 4
	j := h.begin(t, spec)
	scale := func(n int32) error {
		_, err := client.Scale(bounded(t), &rpc.ScaleRequest{Job: j.ID, Trainers: n})
		return wire.FromStatus("", err)
	}
	trainers := func() (running int) {
		for _, r := range j.Status().Roles {
			if r.Role == job.Role_TRAINER && r.State == job.State_RUNNING {
				running++
			}
		}
		return running
	}
	for _, n := range []int32{4, 2, 3} {
		if err := scale(n); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return trainers() == int(n) && j.Status().Trainers == n })
	}
	for _, n := range []int32{1, 5} {
		if err := scale(n); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "2 to 4") {
			t.Errorf("%d trainers: %v", n, err)
		}
	}
	fixed := h.begin(t, reading(t))
	if err := fixed.Scale(bounded(t), 2); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a job that is not elastic: %v", err)
	}
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := scale(3); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a job that has ended: %v", err)
	}
}

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
