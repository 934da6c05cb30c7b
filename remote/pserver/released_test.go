package pserver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/pserver"
)

// A server that has done all its work tells so until a coordinator knows.
func TestFinishedServerAnswers(t *testing.T) {
	for _, sync := range []bool{true, false} {
		s := rig.Start(t, rig.Config(2), rig.SGD(0, sync, 1, 2))
		ctx := t.Context()
		for rank := range uint32(2) {
			if _, err := s.Client.Complete(ctx, &rpc.CompleteRequest{Id: rig.Identity.Of(rank, 0, 0)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		deposed := rig.Identity
		deposed.Generation, deposed.Fence = g+1, deposed.Fence-1
		if _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: deposed.Of(0, 0, 0)}); !errors.Is(err, fault.Fenced) {
			t.Errorf("the end of the job by a coordinator that was deposed: %v", err)
		}
		select {
		case <-s.Released():
			t.Error("nobody knows yet")
		default:
		}
		if status, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: rig.Identity.Job}); err != nil || len(status.Waits) != 1 ||
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

// A server of which a trainer was lost that had completed elsewhere ends when it is told so, not before.
func TestDismissal(t *testing.T) {
	for _, sync := range []bool{true, false} {
		s := rig.Start(t, rig.Config(1), rig.SGD(0, sync, 1, 2))
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

// Where no coordinator comes, a server that has done its work does not wait for ever.
func TestFinishedServerWithoutCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := rig.Config(1)
		s, p := pserver.New(cfg), rig.SGD(0, true, 1, 2)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(context.Background(), p.Op(), p) }()
		if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: rig.Identity.Of(0, 0, 0), Members: rig.Members(0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: rig.Identity.Of(0, 0, 0)}); err != nil {
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
