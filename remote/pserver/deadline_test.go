package pserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/pserver"
)

// timed runs f against a server of two trainers whose deadlines are minutes of a clock that stands still while anyone works. f calls the server
// without a transport; its barriers declare no rows, so that no tensor is needed.
func timed(t *testing.T, f func(t *testing.T, s timedServer)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := rig.Config(2)
		cfg.StartDeadline, cfg.RoundDeadline = 10*time.Minute, time.Minute
		s := timedServer{Server: pserver.New(cfg), ended: make(chan error, 1), start: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		p := rig.SGD(0, true, 1, 1)
		go func() { s.ended <- s.Serve(ctx, p.Op(), p) }()
		f(t, s)
		cancel()
		synctest.Wait()
	})
}

type timedServer struct {
	*pserver.Server
	ended chan error
	start time.Time
}

func (s timedServer) declare(t *testing.T, rank uint32, round uint64) {
	t.Helper()
	if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: rig.Identity.Of(rank, round, 0)}); err != nil {
		t.Fatal(err)
	}
}

// fails waits for the end of the server and checks when it came, and whom it names.
func (s timedServer) fails(t *testing.T, after time.Duration, words ...string) {
	t.Helper()
	err := <-s.ended
	if took := time.Since(s.start); took != after || !errors.Is(err, fault.LostMember) {
		t.Errorf("after %v, want %v: %v", took, after, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if _, told := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: rig.Identity.Of(0, 0, 0)}); told != err {
		t.Errorf("a call after the end is told %v", told)
	}
}

func TestStartDeadline(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		time.Sleep(3 * time.Minute)
		s.declare(t, 0, 0)
		s.fails(t, 10*time.Minute, "trainer 1 (never heard of)", "start_deadline", "pserver 0 of job job")
	})
}

func TestRoundDeadline(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		for round := range uint64(3) {
			s.declare(t, 0, round)
			time.Sleep(59 * time.Second)
			s.declare(t, 1, round)
			synctest.Wait()
		}
		s.declare(t, 1, 3)
		s.fails(t, 3*59*time.Second+time.Minute, "round 3", "trainer 0 (last heard of", "round_deadline")
	})
}

// The deadline of a round counts from its first message, however long the trainers think before it, and whatever old messages come meanwhile.
func TestNoDeadlineBetweenRounds(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.declare(t, 0, 0)
		s.declare(t, 1, 0)
		synctest.Wait()
		s.declare(t, 1, 0) // again
		time.Sleep(24 * time.Hour)
		s.declare(t, 0, 1)
		s.fails(t, 24*time.Hour+time.Minute, "round 1", "trainer 1")
	})
}

// A round that began before the last trainer was heard of has its deadline from then on.
func TestRoundDeadlineFromTheStart(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.declare(t, 0, 0)
		time.Sleep(5 * time.Minute)
		if err := s.GetVariable(&rpc.GetRequest{Id: rig.Identity.Of(1, 0, 0), Name: "none"}, downloads{ctx: t.Context()}); !errors.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		s.fails(t, 6*time.Minute, "round 0", "trainer 1 (last heard of 1m0s ago)")
	})
}

// A trainer that begins a round and then completes leaves no deadline to the others.
func TestDeadlineEndsWithItsRound(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.declare(t, 0, 0)
		s.declare(t, 1, 0)
		synctest.Wait()
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: rig.Identity.Of(1, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		s.declare(t, 0, 1)
		synctest.Wait()
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: rig.Identity.Of(0, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
}

// The completion of one trainer does not end the deadline of those who never came.
func TestStartDeadlineOutlivesCompletion(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: rig.Identity.Of(1, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		s.fails(t, 10*time.Minute, "trainer 0 (never heard of)")
	})
}

// A call waits no longer than its context, and says for what.
func TestWaitEndsWithItsContext(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.declare(t, 0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		told := make(chan error, 1)
		go func() {
			told <- s.GetVariable(&rpc.GetRequest{Id: rig.Identity.Of(0, 1, 0), Name: "w0"}, downloads{ctx: ctx})
		}()
		synctest.Wait()
		status, err := s.Status(t.Context(), &rpc.StatusRequest{Job: rig.Identity.Job})
		if err != nil || len(status.Waiting) != 1 || !strings.HasPrefix(status.Waiting[0], "round 0: trainer 1 (never heard of), for ") {
			t.Errorf("waiting %q, %v", status.GetWaiting(), err)
		}
		if err := <-told; !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "round 0: trainer 1") {
			t.Error(err)
		}
		if status, _ = s.Status(t.Context(), &rpc.StatusRequest{Job: rig.Identity.Job}); len(status.Waiting) != 0 {
			t.Errorf("still waiting %q", status.Waiting)
		}
	})
}
