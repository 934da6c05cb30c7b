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
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/tensor"
)

// timed runs f against a server whose deadlines are minutes of a clock that stands still while anyone works. f calls the server without a transport;
// its barriers declare no rows, so that no tensor is needed.
func timed(t *testing.T, f func(t *testing.T, s timedServer)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pstest.Config(2)
		cfg.StartDeadline, cfg.RoundDeadline = 10*time.Minute, time.Minute
		s := timedServer{Server: pserver.New(cfg), ended: make(chan error, 1), start: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		p := pstest.SGD(0, true, 1, 1)
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

// freeze ends generation 7, or that many later.
func (s timedServer) freeze(t *testing.T, later uint64) {
	t.Helper()
	id := pstest.Identity.Of(0, 0, 0)
	id.Generation += later
	if _, err := s.Freeze(t.Context(), &rpc.FreezeRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
}

// begin begins generation 7, or that many later, of trainers 0 and 1.
func (s timedServer) begin(t *testing.T, later, round uint64) {
	t.Helper()
	id := pstest.Identity.Of(0, 0, 0)
	id.Generation += later
	if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: id, Round: round,
		Members: []*rpc.Member{{Rank: 0, Since: 7}, {Rank: 1, Since: 7}}}); err != nil {
		t.Fatal(err)
	}
}

// waits returns what Status tells, one wait a line.
func (s timedServer) waits(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	status, err := s.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, w := range status.Waits {
		until := "no deadline"
		if w.Until != nil {
			until = "until " + w.Until.AsTime().Sub(s.start).String()
		}
		list = append(list, fmt.Sprintf("%s: %s, by %v since %v, %s; %s", w.Who, w.What, w.By, w.Since.AsTime().Sub(s.start), until, w.LastError))
	}
	return list
}

func (s timedServer) declare(t *testing.T, rank id.Rank, round id.Round) {
	t.Helper()
	if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: pstest.Identity.Of(rank, round, 0)}); err != nil {
		t.Fatal(err)
	}
}

// fails waits for the end of the server and checks when it came, and whom it names.
func (s timedServer) fails(t *testing.T, after time.Duration, words ...string) {
	t.Helper()
	var err error
	select {
	case err = <-s.ended:
	case <-time.After(1000 * time.Hour):
		t.Fatalf("it goes on, and waits for %q", s.waits(t))
	}
	if took := time.Since(s.start); took != after || !errors.Is(err, fault.LostMember) {
		t.Errorf("after %v, want %v: %v", took, after, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if _, told := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: pstest.Identity.Of(0, 0, 0)}); told != err {
		t.Errorf("a call after the end is told %v", told)
	}
}

// A server fails when no coordinator begins the first generation.
func TestStartDeadline(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		if got, want := s.waits(t), []string{"pserver 0: the first generation, by [coordinator] since 0s, until 10m0s; "}; !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		s.fails(t, 10*time.Minute, "the first generation: coordinator", "start_deadline", "pserver 0 of job job")
	})
}

// A server fails when no coordinator begins another generation after Freeze. The deadline counts from the last Freeze. The open round has no deadline
// meanwhile.
func TestFreezeDeadline(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		time.Sleep(59 * time.Second)
		s.freeze(t, 0)
		time.Sleep(8 * time.Minute)
		s.freeze(t, 0)
		if got, want := s.waits(t), []string{"pserver 0: the generation after 7, by [coordinator] since 8m59s, until 18m59s; "}; !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		s.fails(t, 18*time.Minute+59*time.Second, "the generation after 7: coordinator", "start_deadline")
	})
}

func TestRoundDeadline(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		for round := range id.Round(3) {
			s.declare(t, 0, round)
			time.Sleep(59 * time.Second)
			s.declare(t, 1, round)
			synctest.Wait()
		}
		s.declare(t, 1, 3)
		time.Sleep(3 * time.Second)
		// Status lists the wait although no call is blocked.
		want := []string{"pserver 0: round 3, by [trainer 0] since 2m57s, until 3m57s; last heard 1m2s ago"}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		s.fails(t, 3*59*time.Second+time.Minute, "round 3", "trainer 0 (last heard", "round_deadline")
	})
}

// The deadline of a round counts from its first contribution, even if no barrier follows.
func TestRoundDeadlineOfAContribution(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		time.Sleep(time.Hour)
		header := &rpc.VariableChunk{Id: pstest.Identity.Of(0, 0, 0), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{1}, Bytes: 4}
		if err := s.SendVariable(&upload{ctx: t.Context(), header: header, between: func() {}}); err != nil {
			t.Fatal(err)
		}
		s.fails(t, time.Hour+time.Minute, "round 0", "trainer 0", "trainer 1")
	})
}

// A round has no deadline before its first message. Old messages that come again do not start it.
func TestNoDeadlineBetweenRounds(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		s.declare(t, 1, 0)
		synctest.Wait()
		s.declare(t, 1, 0) // again
		time.Sleep(24 * time.Hour)
		s.declare(t, 0, 1)
		s.fails(t, 24*time.Hour+time.Minute, "round 1", "trainer 1")
	})
}

// A round that the next generation trains again has a deadline of its own.
func TestRoundDeadlineOfTheNextGeneration(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		time.Sleep(30 * time.Second)
		s.freeze(t, 0)
		s.begin(t, 1, 0)
		time.Sleep(5 * time.Hour)
		id := pstest.Identity.Of(1, 0, 0)
		id.Generation++
		if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		s.fails(t, 5*time.Hour+90*time.Second, "round 0", "trainer 0 (last heard 5h1m30s ago)")
	})
}

// Another process of a rank counts as never heard, whenever the process before it was.
func TestHeardIsOfTheProcess(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 1, 0)
		s.freeze(t, 0)
		id := pstest.Identity.Of(0, 0, 0)
		id.Generation++
		if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: id,
			Members: []*rpc.Member{{Rank: 0, Since: g}, {Rank: 1, Since: g + 1}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		want := []string{"pserver 0: round 0, by [trainer 1] since 0s, until 1m0s; never heard"}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
	})
}

// The deadline of a round ends with the round. A trainer that completes leaves none behind.
func TestDeadlineEndsWithItsRound(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		s.declare(t, 1, 0)
		synctest.Wait()
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: pstest.Identity.Of(1, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		s.declare(t, 0, 1)
		synctest.Wait()
		if _, err := s.Complete(t.Context(), &rpc.CompleteRequest{Id: pstest.Identity.Of(0, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
}

// A call waits no longer than its context, and its error says for what. Status lists once what several calls wait for.
func TestWaitEndsWithItsContext(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		told := make(chan error, 2)
		for range 2 {
			go func() {
				told <- s.GetVariable(&rpc.GetRequest{Id: pstest.Identity.Of(0, 1, 0), Name: "w0"}, downloads{ctx: ctx})
			}()
		}
		want := []string{"pserver 0: round 0, by [trainer 1] since 0s, until 1m0s; never heard"}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		for range 2 {
			if err := <-told; !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "round 0: trainer 1 (never heard)") {
				t.Error(err)
			}
		}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
	})
}

// A message that has overtaken the Resume of its generation waits for it, but not longer than the start deadline.
func TestMessageOfAGenerationThatNeverBegins(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		told := make(chan error, 1)
		go func() {
			id := pstest.Identity.Of(0, 0, 0)
			id.Generation++
			_, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: id})
			told <- err
		}()
		if got, want := s.waits(t), []string{"pserver 0: generation 8, by [coordinator] since 0s, until 10m0s; "}; !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		if err := <-told; !errors.Is(err, fault.DeadlineExceeded) || time.Since(s.start) != 10*time.Minute ||
			!strings.Contains(err.Error(), "timed out after 10m0s waiting for generation 8: coordinator") {
			t.Error(time.Since(s.start), err)
		}
	})
}
