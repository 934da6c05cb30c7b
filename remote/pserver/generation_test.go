package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

const g = 7 // the first generation of the rig

// untilWaits returns when Status tells of a wait.
func untilWaits(t *testing.T, s *rig.Server, what string) {
	t.Helper()
	for start := time.Now(); ; {
		status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: rig.Identity.Job})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range status.Waits {
			if w.What == what {
				return
			}
		}
		if time.Since(start) > rig.Patience {
			t.Fatalf("nobody waits for %s; waits %v", what, status.Waits)
		}
	}
}

// A trainer that dies in the middle of a round leaves nobody waiting: those who wait are woken when its generation ends, and train the round again
// without it; what was sent before counts no more, also when it arrives late.
func TestLostTrainer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*rig.Patience)
	defer cancel()
	p := rig.SGD(0, true, 1, 2)
	s := rig.Start(t, rig.Config(3), p)
	a, b, lost := rig.Trainer{Client: s.Client}, rig.Trainer{Client: s.Client, Rank: 1}, rig.Trainer{Client: s.Client, Rank: 2}
	for _, trainer := range []rig.Trainer{a, b, lost} {
		if _, err := trainer.Send(ctx, 0, "w0@GRAD", rig.Filled(2, 100)); err != nil {
			t.Fatal(err)
		}
	}
	told := make(chan error, 2)
	for _, trainer := range []rig.Trainer{a, b} {
		if err := trainer.Barrier(ctx, 0, 2, 1); err != nil {
			t.Fatal(err)
		}
		go func() { _, _, err := trainer.Get(ctx, 1, "w0", 2); told <- err }()
	}
	untilWaits(t, s, "round 0")
	state, err := s.Freeze(g)
	if err != nil || state.Generation != g || state.Round != 0 || len(state.Declared) != 2 || len(state.Applied) != 0 {
		t.Fatal(state, err)
	}
	for range 2 {
		if err := <-told; !errors.Is(err, fault.Superseded) {
			t.Errorf("who waits is told %v", err)
		}
	}
	if err := lost.Barrier(ctx, 0, 2, 1); !errors.Is(err, fault.Superseded) {
		t.Errorf("a late barrier: %v", err)
	}
	if err := s.Resume(g+1, 0, rig.Members(0, 1)); err != nil {
		t.Fatal(err)
	}
	if n := s.Buffers(); n != 2 {
		t.Errorf("%d of the 3 buffers that were in use are kept, want one for each member", n)
	}
	a.Generation, b.Generation = g+1, g+1
	if _, err := lost.Send(ctx, 0, "w0@GRAD", rig.Filled(2, 1000)); !errors.Is(err, fault.Superseded) {
		t.Errorf("a late contribution: %v", err)
	}
	for rank, trainer := range []rig.Trainer{a, b} {
		if _, err := trainer.Send(ctx, 0, "w0@GRAD", rig.Filled(2, float32(1+rank))); err != nil {
			t.Fatal(err)
		}
		if err := trainer.Barrier(ctx, 0, 3, 1); err != nil {
			t.Fatal(err)
		}
	}
	if w, _, err := a.Get(ctx, 1, "w0", 2); err != nil || w.Float32s()[1] != -1.5 {
		t.Errorf("%v, %v: want the mean of the two", w, err)
	}
	for _, trainer := range []rig.Trainer{a, b} {
		if err := trainer.Complete(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(g+2, 1, rig.Members(2)); !errors.Is(err, fault.Stale) {
		t.Errorf("a generation after the end: %v", err)
	}
	if state, err := s.Freeze(g + 1); err != nil || !slices.Equal(state.Completed, []uint32{0, 1}) {
		t.Errorf("a freeze after the end: %v, %v", state, err)
	}
	if err := s.Resume(g+3, 1, nil); err != nil {
		t.Errorf("the end of the job after the end: %v", err)
	}
}

// Messages that overtake the Resume of their generation wait for it: contributions, barriers, requests and completions.
func TestMessagesThatOvertakeResume(t *testing.T) {
	s := rig.New(t, rig.Config(1))
	s.Serve(rig.SGD(0, true, 1, 2))
	a := rig.Trainer{Client: s.Client}
	told := make(chan error, 2)
	go func() {
		_, err := a.Send(t.Context(), 0, "w0@GRAD", rig.Filled(2, 3))
		if err == nil {
			err = a.Barrier(t.Context(), 0, 1, 1)
		}
		told <- err
	}()
	go func() {
		w, version, err := a.Get(t.Context(), 0, "w0", 2)
		if err == nil && (version != 0 || w.Float32s()[0] != 0) {
			err = fmt.Errorf("version %d is %v", version, w.Float32s())
		}
		told <- err
	}()
	untilWaits(t, s, "generation 7")
	if err := s.Begin(1); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil && !errors.Is(err, fault.Stale) { // the version may have passed
		t.Error(err)
	}
	if err := <-told; err != nil && !errors.Is(err, fault.Stale) {
		t.Error(err)
	}
	if w, _, err := a.Get(t.Context(), 1, "w0", 2); err != nil || w.Float32s()[0] != -3 {
		t.Error(w, err)
	}
}
