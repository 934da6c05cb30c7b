package trainer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/internal/rig"
)

// A call to somebody who is away says why it has ended: for how long nobody answered, or that its caller gave it up before.
func TestCallsThatNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := fault.New(fault.LostMember, "stopped")
		for name, c := range map[string]struct {
			after time.Duration // until the caller gives up
			kind  fault.Kind
			says  string
		}{
			"out of patience": {2 * time.Hour, fault.Unavailable, "within 1h0m0s"},
			"given up":        {time.Second, fault.Canceled, stopped.Error()},
		} {
			ctx, stop := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(c.after, func() { stop(stopped) })
			err := asking{patience: time.Hour}.call(ctx, question{"coordinator", "a task"}, func(context.Context, uint32) error {
				return fault.New(fault.Unavailable, "nobody")
			})
			if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
			timer.Stop()
			stop(nil)
		}
	})
}

// One that is to end does not wait for those who are gone.
func TestDrainedTrainerAsksOnce(t *testing.T) {
	drain, attempts := make(chan struct{}), 0
	close(drain)
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	err := asking{patience: time.Hour, drain: drain}.call(ctx, question{"coordinator", "a task"}, func(context.Context, uint32) error {
		attempts++
		return fault.New(fault.Unavailable, "gone")
	})
	if !errors.Is(err, fault.Drained) || attempts != 1 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}
