package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/edl-go/edl/fault"
)

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
