package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/edl-go/edl/fault"
)

// RetryWithin is Retry for calls that have no deadline because they wait for what others do, as long as that takes. It gives up when the peer has
// been unavailable for patience: when attempts have failed for so long and none of them lasted as long. f should make its
// calls with grpc.WaitForReady(false), or they wait for a peer that is gone.
func RetryWithin(ctx context.Context, patience time.Duration, f func(attempt uint32) error) error {
	var failing time.Time // since when, zero while the peer answers
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return Retry(ctx, func(attempt uint32) error {
		start := time.Now()
		err := f(attempt)
		end := time.Now()
		switch {
		case failing.IsZero() || end.Sub(start) >= patience:
			failing = end
		case end.Sub(failing) >= patience:
			cancel()
		}
		return err
	})
}

// Retry calls f until it succeeds, fails with anything but fault.Unavailable, or ctx ends. f learns the number of the attempt, from 0, to put it
// into its messages. A single error of the transport never ends a job.
func Retry(ctx context.Context, f func(attempt uint32) error) error {
	delay := 10 * time.Millisecond
	for attempt := uint32(0); ; attempt++ {
		err := f(attempt)
		if err == nil || !errors.Is(err, fault.Unavailable) {
			return err
		}
		timer := time.NewTimer(delay/2 + rand.N(delay))
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		delay = min(2*delay, time.Second)
	}
}
