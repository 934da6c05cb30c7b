package role_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
)

// A trainer that is told to end in order leaves an elastic job, whose other roles go on to the end of the data.
func TestDrainedTrainer(t *testing.T) {
	store := cluster.NewMemory()
	specs := crew(t, 40)
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

// A trainer that is told to end in order while it waits for the others has begun nothing, and ends in order.
func TestDrainedWhileItWaits(t *testing.T) {
	store := cluster.NewMemory()
	spec := crew(t, 1)[3]
	ctx, drain := context.WithCancelCause(bounded(t))
	registry := open(t, store)
	lost, err := registry.Lost(ctx)
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

// joined is a registry that tells when a trainer has joined and looks for the coordinator.
type joined struct {
	cluster.Registry
	then func()
}

func (r joined) Coordinator(ctx context.Context) (string, error) {
	r.then()
	return r.Registry.Coordinator(ctx)
}
