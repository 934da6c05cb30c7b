package listen_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
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
