package pserver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// A call waits no longer than its context, and says for what. What several wait for is told once.
func TestWaitEndsWithItsContext(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		s.declare(t, 0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		told := make(chan error, 2)
		for range 2 {
			go func() {
				told <- s.GetVariable(&rpc.GetRequest{Id: rig.Identity.Of(0, 1, 0), Name: "w0"}, downloads{ctx: ctx})
			}()
		}
		want := []string{"pserver 0: round 0, by [trainer 1] since 0s, until 1m0s; never heard of"}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		for range 2 {
			if err := <-told; !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "round 0: trainer 1 (never heard of)") {
				t.Error(err)
			}
		}
		if got := s.waits(t); !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
	})
}

// A message that has overtaken the begin of its generation waits for it, but not for ever.
func TestMessageOfAGenerationThatNeverBegins(t *testing.T) {
	timed(t, func(t *testing.T, s timedServer) {
		s.begin(t, 0, 0)
		told := make(chan error, 1)
		go func() {
			id := rig.Identity.Of(0, 0, 0)
			id.Generation++
			_, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: id})
			told <- err
		}()
		if got, want := s.waits(t), []string{"pserver 0: generation 8, by [coordinator] since 0s, until 10m0s; "}; !slices.Equal(got, want) {
			t.Errorf("waits %q, want %q", got, want)
		}
		if err := <-told; !errors.Is(err, fault.DeadlineExceeded) || time.Since(s.start) != 10*time.Minute ||
			!strings.Contains(err.Error(), "generation 8: coordinator within 10m0s") {
			t.Error(time.Since(s.start), err)
		}
	})
}
