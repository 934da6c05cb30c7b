package listen_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// An elastic job is given trainers and loses them while it runs, within its bounds.
func TestScale(t *testing.T) {
	t.Parallel()
	h := newHarness(t, listen.Config{}, all(idle))
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

// A number of trainers that is wanted before the roles are started is the one that the job begins with.
func TestScaleBeforeTheStart(t *testing.T) {
	reached, open := make(chan struct{}, 10), make(chan struct{})
	h := &harness{store: cluster.NewMemory()}
	h = newHarnessIn(t, h, gated(h, func() { reached <- struct{}{}; <-open }, func() {}), all(idle))
	spec := reading(t)
	spec.TrainersMax = 4
	j := h.begin(t, spec)
	<-reached
	for _, n := range []int32{4, 3} {
		if err := j.Scale(bounded(t), n); err != nil {
			t.Fatal(err)
		}
	}
	close(open)
	eventually(t, func() bool { return h.started.Load() == 1+2+3 })
	if n := j.Status().Trainers; n != 3 {
		t.Errorf("%d trainers are wanted", n)
	}
	registry, err := h.store.Open(cluster.Prefix(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if n, err := registry.Trainers(bounded(t)); n != 3 || err != nil {
		t.Errorf("the registry knows of %d trainers, %v", n, err)
	}
}
