package pserver_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// downloads is a stream of GetVariable that has nothing but a context.
type downloads struct {
	grpc.ServerStreamingServer[rpc.VariableChunk]
	ctx context.Context
}

func (d downloads) Context() context.Context { return d.ctx }

// An op that fails on the server fails every trainer that waits, with its kind, op and variable.
func TestFailingBlockReachesTrainers(t *testing.T) {
	for _, sync := range []bool{true, false} {
		p := pstest.SGD(0, sync, 1, 2)
		broken := fault.E(fault.NotFinite, fault.Op("sgd"), fault.Var("w0"), fault.Line("train.go:12"), fault.Got("NaN"))
		p.Blocks[1] = func(context.Context, ops.Step) error { return broken }
		s := pstest.Start(t, pstest.Config(2), p)
		err := pstest.Parallel(2, func(rank int) error {
			trainer := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}
			_, err := trainer.Send(t.Context(), 0, "w0@GRAD", pstest.Vector(2))
			if err == nil && sync {
				err = trainer.Barrier(t.Context(), 0, 1, 1)
			}
			if err == nil {
				_, _, err = trainer.Get(t.Context(), 1, "w0", 2)
			}
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != fault.NotFinite || f.Op != "sgd" || f.Variable != "w0" || f.Line != "train.go:12" || f.Where == "" {
				t.Errorf("sync %v: trainer %d is told %v", sync, rank, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := s.Wait(); err != broken {
			t.Errorf("the server ends with %v", err)
		}
	}
}

// The end of the server's context reaches everyone who waits, as the loss of a server that another process may take the place of.
func TestCancellation(t *testing.T) {
	s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, true, 1, 2))
	a := pstest.Trainer{Client: s.Client}
	if err := a.Barrier(t.Context(), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 2)
	go func() { _, _, err := a.Get(t.Context(), 1, "w0", 2); told <- err }()
	go func() {
		_, _, err := a.GetAs(t.Context(), &rpc.GetRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w0", Final: true}, 2)
		told <- err
	}()
	s.Stop()
	for range 2 {
		if err := <-told; fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
	}
	if err := s.Wait(); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
	status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil || len(status.Waits) != 0 {
		t.Errorf("a server that has failed waits for %v, %v", status.GetWaits(), err)
	}
}

// Trainers that wait for a server whose program cannot be served are told why.
func TestProgramThatCannotBeServed(t *testing.T) {
	p := pstest.SGD(0, true, 1, 2)
	p.Service.Grads = append(p.Service.Grads, comm.Contribution{Name: "gone@GRAD", Block: 1, Merge: ops.MergeMean})
	s := pstest.New(t, pstest.Config(1))
	told := make(chan error, 1)
	go func() {
		_, _, err := pstest.Trainer{Client: s.Client}.Get(t.Context(), 0, "w0", 2)
		told <- err
	}()
	s.Serve(p)
	var f *fault.Fault
	if err := <-told; !errors.As(err, &f) || f.Kind != fault.InvalidProgram || f.Variable != "gone@GRAD" {
		t.Error(err)
	}
	if err := s.Wait(); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
}

// When the job is over, calls that would wait are refused.
func TestNobodyWaitsAfterTheEnd(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 2))
	a := pstest.Trainer{Client: s.Client}
	for range 2 {
		if err := a.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Get(t.Context(), 1, "w0", 2); !errors.Is(err, fault.Stale) {
		t.Error(err)
	}
	if _, _, err := a.Get(t.Context(), 0, "w0", 2); err != nil {
		t.Error(err)
	}
	s.Fail(errors.New("too late"))
	if err := a.Complete(t.Context()); err != nil {
		t.Error(err)
	}
}
