package pserver_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/tensor"
)

// A server ends when no coordinator begins a generation, at first,
func TestStartDeadline(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		if got, want := s.waits(t), []string{"pserver 0: the first generation, by [coordinator] since 0s, until 10m0s; "}; !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		s.fails(t, 10*time.Minute, "the first generation: coordinator", "start_deadline", "pserver 0 of job job")
	})
}

// or after it has ended one, however often it says so; the deadline counts from its last word. Meanwhile the round that was open has none.
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
		for round := range uint64(3) {
			s.declare(t, 0, round)
			time.Sleep(59 * time.Second)
			s.declare(t, 1, round)
			synctest.Wait()
		}
		s.declare(t, 1, 3)
		time.Sleep(3 * time.Second)
		// The wait is to be seen though no call is blocked here.
		want := []string{"pserver 0: round 3, by [trainer 0] since 2m57s, until 3m57s; last heard of 1m2s ago"}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		s.fails(t, 3*59*time.Second+time.Minute, "round 3", "trainer 0 (last heard of", "round_deadline")
	})
}

// A contribution alone begins a round, too: its trainer may be lost before it declares it, and the others before they send anything.
func TestRoundDeadlineOfAContribution(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		time.Sleep(time.Hour)
		header := &rpc.VariableChunk{Id: rig.Identity.Of(0, 0, 0), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{1}, Bytes: 4}
		if err := s.SendVariable(&upload{ctx: t.Context(), header: header, between: func() {}}); err != nil {
			t.Fatal(err)
		}
		s.fails(t, time.Hour+time.Minute, "round 0", "trainer 0", "trainer 1")
	})
}

// The deadline of a round counts from its first message, however long the trainers think before it, and whatever old messages come meanwhile.
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

// A round that is trained again by the next generation has a deadline of its own.
func TestRoundDeadlineOfTheNextGeneration(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		time.Sleep(30 * time.Second)
		s.freeze(t, 0)
		s.begin(t, 1, 0)
		time.Sleep(5 * time.Hour)
		id := rig.Identity.Of(1, 0, 0)
		id.Generation++
		if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		s.fails(t, 5*time.Hour+90*time.Second, "round 0", "trainer 0 (last heard of 5h1m30s ago)")
	})
}

// A trainer that begins a round and then completes leaves no deadline to the others.
func TestDeadlineEndsWithItsRound(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
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
