package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

const g = 7 // the first generation of the rig

// untilWaits returns when Status tells of a wait.
func untilWaits(t *testing.T, s *pstest.Server, what string) {
	t.Helper()
	for start := time.Now(); ; {
		status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range status.Waits {
			if w.What == what || strings.HasPrefix(w.What, what+", ") {
				return
			}
		}
		if time.Since(start) > pstest.Patience {
			t.Fatalf("nobody waits for %s; waits %v", what, status.Waits)
		}
	}
}

// A trainer that dies in the middle of a round leaves nobody waiting. Those who wait are told when its generation ends, and train the round again
// without it. What was sent in that generation does not count, also when it arrives late.
func TestLostTrainer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*pstest.Patience)
	defer cancel()
	p := pstest.SGD(0, true, 1, 2)
	s := pstest.Start(t, pstest.Config(3), p)
	a, b, lost := pstest.Trainer{Client: s.Client}, pstest.Trainer{Client: s.Client, Rank: 1}, pstest.Trainer{Client: s.Client, Rank: 2}
	for _, trainer := range []pstest.Trainer{a, b, lost} {
		if _, err := trainer.Send(ctx, 0, "w0@GRAD", pstest.Filled(2, 100)); err != nil {
			t.Fatal(err)
		}
	}
	told := make(chan error, 2)
	for _, trainer := range []pstest.Trainer{a, b} {
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
	if err := s.Resume(g+1, 0, pstest.Members(0, 1)); err != nil {
		t.Fatal(err)
	}
	if n := s.Buffers(); n != 2 {
		t.Errorf("%d of the 3 buffers that were in use are kept, want one for each member", n)
	}
	a.Generation, b.Generation = g+1, g+1
	if _, err := lost.Send(ctx, 0, "w0@GRAD", pstest.Filled(2, 1000)); !errors.Is(err, fault.Superseded) {
		t.Errorf("a late contribution: %v", err)
	}
	for rank, trainer := range []pstest.Trainer{a, b} {
		if _, err := trainer.Send(ctx, 0, "w0@GRAD", pstest.Filled(2, float32(1+rank))); err != nil {
			t.Fatal(err)
		}
		if err := trainer.Barrier(ctx, 0, 3, 1); err != nil {
			t.Fatal(err)
		}
	}
	if w, _, err := a.Get(ctx, 1, "w0", 2); err != nil || w.Float32s()[1] != -1.5 {
		t.Errorf("%v, %v: want the mean of the two", w, err)
	}
	for _, trainer := range []pstest.Trainer{a, b} {
		if err := trainer.Complete(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(g+2, 1, pstest.Members(2)); !errors.Is(err, fault.Stale) {
		t.Errorf("a generation after the end: %v", err)
	}
	if state, err := s.Freeze(g + 1); err != nil || !slices.Equal(state.Completed, []uint32{0, 1}) {
		t.Errorf("a freeze after the end: %v, %v", state, err)
	}
	if err := s.Resume(g+3, 1, nil); err != nil {
		t.Errorf("the end of the job after the end: %v", err)
	}
}

// Messages that overtake the Resume of their generation wait for it: contributions, barriers, requests and completions. A trainer contributes to a round when
// it has the parameters of the round before, so who asks here is another trainer than who contributes.
func TestMessagesThatOvertakeResume(t *testing.T) {
	s := pstest.New(t, pstest.Config(2))
	s.Serve(pstest.SGD(0, true, 1, 2))
	a, b := pstest.Trainer{Client: s.Client}, pstest.Trainer{Client: s.Client, Rank: 1}
	contributes := func(trainer pstest.Trainer) error {
		if _, err := trainer.Send(t.Context(), 0, "w0@GRAD", pstest.Filled(2, 3)); err != nil {
			return err
		}
		return trainer.Barrier(t.Context(), 0, 1, 1)
	}
	told := make(chan error, 2)
	go func() { told <- contributes(a) }()
	go func() {
		w, version, err := b.Get(t.Context(), 0, "w0", 2)
		if err == nil && (version != 0 || w.Float32s()[0] != 0) {
			err = fmt.Errorf("version %d is %v", version, w.Float32s())
		}
		if err == nil {
			err = contributes(b)
		}
		told <- err
	}()
	untilWaits(t, s, "generation 7")
	if err := s.Begin(2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	for _, trainer := range []pstest.Trainer{a, b} {
		if w, _, err := trainer.Get(t.Context(), 1, "w0", 2); err != nil || w.Float32s()[0] != -3 {
			t.Error(w, err)
		}
	}
}

// A coordinator that another one has replaced is refused. So is one that commits contributions that are not here.
func TestRefusedCoordinators(t *testing.T) {
	s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, true, 1, 2))
	ctx, members := t.Context(), pstest.Members(0, 1)
	newer, older, foreign := pstest.Identity, pstest.Identity, pstest.Identity
	newer.Fence, older.Fence, foreign.Job = 20, 19, "other"
	for name, c := range map[string]struct {
		call func() error
		kind fault.Kind
	}{
		"Freeze of another job": {func() error { _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{Id: foreign.Of(0, 0, 0)}); return err },
			fault.Foreign},
		"Freeze of nobody": {func() error { _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{}); return err }, fault.Foreign},
		"Resume of another job": {func() error { _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: foreign.Of(0, 0, 0)}); return err },
			fault.Foreign},
		"Freeze of old generations": {func() error { _, err := s.Freeze(g - 1); return err }, fault.Stale},
		"Resume of old generations": {func() error { return s.Resume(g-1, 0, nil) }, fault.Stale},
		"Resume without Freeze":     {func() error { return s.Resume(g+1, 0, members) }, fault.Internal},
		"ranks out of range":        {func() error { return s.Resume(g+1, 0, pstest.Members(2)) }, fault.InvalidArgument},
		"impossible records": {func() error {
			return s.Resume(g+1, 1, members, &rpc.Declared{Rows: 1, Records: []*rpc.RecordRange{{From: 3, To: 2}}})
		}, fault.InvalidArgument},
	} {
		if err := c.call(); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{Id: newer.Of(0, 0, 0)}); err != nil {
		t.Error(err)
	}
	if _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{Id: older.Of(0, 0, 0)}); !errors.Is(err, fault.Fenced) {
		t.Errorf("a coordinator that was replaced: %v", err)
	}
	older.Generation++
	if _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: older.Of(0, 0, 0), Members: members}); !errors.Is(err, fault.Fenced) {
		t.Errorf("a coordinator that was replaced: %v", err)
	}
	newer.Generation++
	if _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: newer.Of(0, 0, 0), Members: members, Round: 1,
		Commit: []*rpc.Declared{{Rank: 1, Rows: 2}}}); !errors.Is(err, fault.Internal) {
		t.Errorf("a commit of what is not here: %v", err)
	}
	if status, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job}); err != nil || status.Generation != g {
		t.Error(status, err)
	}
}

// A server that has finished answers calls until a coordinator knows.
func TestFinishedServerAnswers(t *testing.T) {
	for _, sync := range []bool{true, false} {
		s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, sync, 1, 2))
		ctx := t.Context()
		for rank := range id.Rank(2) {
			if _, err := s.Client.Complete(ctx, &rpc.CompleteRequest{Id: pstest.Identity.Of(rank, 0, 0)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		lostLock := pstest.Identity
		lostLock.Generation, lostLock.Fence = g+1, lostLock.Fence-1
		if _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: lostLock.Of(0, 0, 0)}); !errors.Is(err, fault.Fenced) {
			t.Errorf("the end of the job by a coordinator that has lost the lock: %v", err)
		}
		select {
		case <-s.Released():
			t.Error("nobody knows yet")
		default:
		}
		if status, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job}); err != nil || len(status.Waits) != 1 ||
			status.Waits[0].What != "the end of the job" {
			t.Errorf("%v, %v", status, err)
		}
		if answer, err := s.Freeze(g); err != nil || len(answer.Completed) != 2 {
			t.Errorf("%v, %v", answer, err)
		}
		for range 2 {
			if err := s.Resume(g+1, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		<-s.Released()
	}
}

// A trainer is lost that has completed at another server, and not at this one. This server ends when a coordinator tells it to, and not before.
func TestDismissal(t *testing.T) {
	for _, sync := range []bool{true, false} {
		s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, sync, 1, 2))
		if err := s.Resume(g-1, 0, nil); !errors.Is(err, fault.Stale) {
			t.Errorf("the end of the job in an old generation: %v", err)
		}
		if err := s.Resume(g+1, 0, nil); sync && !errors.Is(err, fault.Internal) || !sync && err != nil {
			t.Errorf("the end of the job in the middle of it: %v", err)
		}
		if sync {
			if _, err := s.Freeze(g); err != nil {
				t.Fatal(err)
			}
			if err := s.Resume(g+1, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		<-s.Released()
	}
}

// A server that has finished waits for a coordinator no longer than the start deadline.
func TestFinishedServerWithoutCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pstest.Config(1)
		s, p := pserver.New(cfg), pstest.SGD(0, true, 1, 2)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(context.Background(), p.Op(), p) }()
		if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: pstest.Identity.Of(0, 0, 0), Members: pstest.Members(0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: pstest.Identity.Of(0, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-s.Released()
		if since := time.Since(began); since != cfg.StartDeadline {
			t.Errorf("it waits for %v", since)
		}
	})
}

// A server without parameters still applies a round when the coordinator commits the one after it, which another server has finished. The server begins
// the generation when it has applied the first round, and then applies the second one.
func TestResumeWaitsForTheRoundBefore(t *testing.T) {
	ctx := t.Context()
	p := pstest.SGD(0, true, 1)
	p.Service.Prepare = []program.BlockIndex{7}
	running, release := make(chan uint64, 2), make(chan struct{})
	p.Blocks[7] = func(ctx context.Context, step ops.Step) error {
		running <- step.Round
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	s := pstest.Start(t, pstest.Config(1), p)
	a := pstest.Trainer{Client: s.Client}
	if err := a.Barrier(ctx, 0, 1, 0); err != nil {
		t.Fatal(err)
	}
	<-running
	if state, err := s.Freeze(g); err != nil || state.Round != 1 {
		t.Fatal(state, err)
	}
	begun := make(chan error, 1)
	go func() { begun <- s.Resume(g+1, 2, pstest.Members(0), &rpc.Declared{Rows: 1}) }()
	untilWaits(t, s, "round 0")
	close(release)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	a.Generation = g + 1
	if err := a.Barrier(ctx, 2, 0, 0); err != nil { // is held until round 1 is applied
		t.Error(err)
	}
	if round := <-running; round != 1 {
		t.Errorf("round %d follows round 0", round)
	}
}

// A job that goes on from a saved state starts at the round of that state: everything that the server tells counts from there, and so do the steps
// that its blocks run for.
func TestStart(t *testing.T) {
	ctx := t.Context()
	cfg := pstest.Config(1)
	cfg.Start = 41
	for _, sync := range []bool{true, false} {
		p := pstest.SGD(0, sync, 1, 2)
		p.Service.LRDecay = 9
		var steps []uint64
		p.Blocks[9] = func(_ context.Context, step ops.Step) error {
			steps = append(steps, step.Round)
			return nil
		}
		s := pstest.New(t, cfg)
		s.Serve(p)
		a := pstest.Trainer{Client: s.Client}
		tells := func(round uint64) {
			t.Helper()
			m := &rpc.GetRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w0", AnyVersion: true}
			if w, version, err := a.GetAs(ctx, m, 2); err != nil || version != round || w.Float32s()[0] != 41-float32(round) {
				t.Errorf("sync %v: version %d is %v, %v; want version %d", sync, version, w.Float32s(), err, round)
			}
			if status, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job}); err != nil || status.Round != round {
				t.Errorf("sync %v: status %v, %v; want round %d", sync, status, err, round)
			}
			if l, err := wire.Ledger(ctx, "pserver 0", s.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job}); err != nil || l.Round != round {
				t.Errorf("sync %v: the ledger says %v, %v; want round %d", sync, l, err, round)
			}
		}
		tells(41) // before the first generation
		if state, err := s.Freeze(0); err != nil || sync && state.Round != 41 || state.Generation != 0 || len(state.Applied) != 0 {
			t.Errorf("sync %v: %v, %v", sync, state, err)
		}
		if err := s.Resume(g, 0, pstest.Members(0)); sync && !errors.Is(err, fault.Internal) || !sync && err != nil {
			t.Errorf("sync %v: a generation that starts at round 0: %v", sync, err)
		}
		if err := s.Resume(g, 41, pstest.Members(0)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Get(ctx, 41, "w0", 2); err != nil {
			t.Error(err)
		}
		for round := uint64(41); round < 43; round++ {
			if _, err := a.Send(ctx, round, "w0@GRAD", pstest.Filled(2, 1)); err != nil {
				t.Fatal(err)
			}
			if err := a.Barrier(ctx, round, 1, 1); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Get(ctx, round+1, "w0", 2); err != nil {
				t.Fatal(err)
			}
			tells(round + 1)
		}
		if err := a.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(); err != nil || !slices.Equal(steps, []uint64{41, 42}) {
			t.Errorf("sync %v: the learning rate of steps %v, %v", sync, steps, err)
		}
	}
}
