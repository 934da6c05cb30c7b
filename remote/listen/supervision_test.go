package listen_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/listen"
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
	followEvents(t, stream, func(e *job.Event) {
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
			j := newHarness(t, listen.Config{}, loses(role, 2, fault.New(kind, "some end"))).begin(t, reading(t))
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
		f := endsWith(t, newHarness(t, listen.Config{}, loses("trainer-1", 1000, fault.New(fault.LostMember, "some end"))).begin(t, spec))
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
	h := newHarness(t, listen.Config{}, loses("pserver-1", 1, fault.New(fault.LostMember, "some end")))
	j := h.begin(t, reading(t))
	if err := j.Wait(bounded(t)); err != nil || startsOf(j) != "2 2 2 2 2" {
		t.Errorf("%v after starts %s", err, startsOf(j))
	}
	if states, _ := statesOf(t, serve(t, h.Manager), j); !slices.Equal(states, []string{"STARTING", "STARTING", "SUCCEEDED"}) {
		t.Errorf("told %v", states)
	}
	for _, r := range j.Status().Roles { // only the one that was lost has failed
		if lost := r.Role == job.Role_PSERVER && r.Index == 1; lost != (r.Failure != nil) {
			t.Errorf("%v %d is told to have ended with %v", r.Role, r.Index, r.Failure)
		}
	}
}

// A role that hangs keeps its process, but not its lease: it is killed and started again.
func TestLostLeaseKills(t *testing.T) {
	t.Parallel()
	var h *harness
	joined, again := make(chan struct{}), make(chan struct{})
	h = newHarness(t, listen.Config{}, func(name string) run {
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
		return j.Ended() || len(waits) > 0 && strings.Contains(waits[0].What, "trainer 0, because its lease is lost")
	})
	if err := j.Wait(bounded(t)); err != nil || startsOf(j) != "1 1 1 2 1" {
		t.Errorf("%v after starts %s", err, startsOf(j))
	}
}

// refusing is a registry that does not say who lives, or who is lost and wanted.
type refusing struct {
	cluster.Registry
	refuse, mute *atomic.Bool
	refused      *atomic.Int32 // by mute
}

func (r refusing) Live(ctx context.Context) (map[cluster.Member]id.Incarnation, error) {
	if r.refuse.Load() {
		return nil, fault.New(fault.InvalidArgument, "a user without rights")
	}
	return r.Registry.Live(ctx)
}

func (r refusing) WatchLost(ctx context.Context) (<-chan cluster.Member, error) {
	if r.mute.Load() {
		r.refused.Add(1)
		return closed[cluster.Member](), nil
	}
	return r.Registry.WatchLost(ctx)
}

func (r refusing) WatchTrainers(ctx context.Context) (<-chan int, error) {
	if r.mute.Load() {
		r.refused.Add(1)
		return closed[int](), nil
	}
	return r.Registry.WatchTrainers(ctx)
}

func closed[T any]() <-chan T {
	c := make(chan T)
	close(c)
	return c
}

// What a registry refused to tell is told when it has ceased to: of lost leases, and of trainers that are wanted.
func TestRefusalPasses(t *testing.T) {
	t.Parallel()
	var refuse, mute atomic.Bool
	var refused atomic.Int32
	mute.Store(true)
	h := &harness{store: cluster.NewMemory()}
	newHarnessIn(t, h, listen.Config{Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		registry, err := h.store.Open(spec.Prefix)
		return refusing{registry, &refuse, &mute, &refused}, err
	}}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
			registry, err := h.store.Open(spec.Prefix)
			if err != nil {
				return err
			}
			defer registry.Close()
			if name == "trainer-1" {
				if _, err := registry.JoinTrainer(ctx, 1); err != nil {
					return err
				}
			}
			return idle(ctx, spec, log)
		}
	})
	spec := reading(t)
	spec.TrainersMax = 3
	j := h.begin(t, spec)
	eventually(t, func() bool { return h.started.Load() == 5 && refused.Load() >= 4 })
	mute.Store(false)
	if err := j.Scale(bounded(t), 3); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return j.Status().Trainers == 3 })
	registry, err := h.store.Open(cluster.Prefix(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	trainer := cluster.Member{Role: job.Role_TRAINER, Index: 1}
	eventually(t, func() bool {
		live, err := registry.Live(bounded(t))
		return err == nil && live[trainer] != 0
	})
	h.store.Expire(cluster.Prefix(j.ID), trainer)
	eventually(t, func() bool { return startsOf(j) == "1 1 1 1 2 1" })
}

// A registry that refuses to say whose leases have ended is no reason to end the job, but it is said.
func TestRefusedLeases(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var refuse atomic.Bool
	h, log := &harness{store: cluster.NewMemory()}, &strings.Builder{}
	newHarnessIn(t, h, listen.Config{Log: slog.New(slog.NewTextHandler(locked{&mu, log}, nil)),
		Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
			registry, err := h.store.Open(spec.Prefix)
			return refusing{Registry: registry, refuse: &refuse, mute: &atomic.Bool{}}, err
		}}, all(idle))
	j := h.begin(t, reading(t))
	eventually(t, func() bool { return h.started.Load() == 5 })
	refuse.Store(true)
	eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), "which roles hold their leases") && strings.Contains(log.String(), "a user without rights")
	})
	if j.Ended() {
		t.Error("the job has ended")
	}
}
