package trainer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/waits"
)

// A call without an answer says why it has ended: for how long it was repeated, or that its caller gave it up before.
func TestCallsThatNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := fault.New(fault.LostMember, "stopped")
		for name, c := range map[string]struct {
			after time.Duration // until the caller gives up
			kind  fault.Kind
			says  string
		}{
			"for too long": {2 * time.Hour, fault.Unavailable, "within 1h0m0s"},
			"given up":     {time.Second, fault.Canceled, stopped.Error()},
		} {
			ctx, stop := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(c.after, func() { stop(stopped) })
			err := caller{unavailable: time.Hour}.call(ctx, callTarget{"coordinator", "a task"}, func(context.Context, id.Retry) error {
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
	drain, calls := make(chan struct{}), 0
	close(drain)
	ctx, cancel := context.WithTimeout(t.Context(), pstest.Patience)
	defer cancel()
	err := caller{unavailable: time.Hour, drain: drain}.call(ctx, callTarget{"coordinator", "a task"}, func(context.Context, id.Retry) error {
		calls++
		return fault.New(fault.Unavailable, "gone")
	})
	if !errors.Is(err, fault.Drained) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// follow collects what a board lists, until stop.
func follow(t *testing.T, board *waits.Board) (told *[]string, stop func()) {
	t.Helper()
	told = &[]string{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		board.Follow(ctx, time.Second, 3*time.Second, func(list []*job.Wait) {
			text := ""
			for _, w := range list {
				text += w.What + " of " + w.By[0]
				if w.LastError != "" {
					text += ": " + w.LastError
				}
				if w.Until != nil {
					text += ", " + w.Until.AsTime().Sub(w.Since.AsTime()).String()
				}
				text += ";"
			}
			*told = append(*told, text)
		})
	}()
	return told, func() { cancel(); <-ended }
}

// A trainer lists what it waits for, with the last error and the time at which it gives up. Short waits are not listed.
func TestCallsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := &waits.Board{}
		c := caller{unavailable: time.Minute, waits: board}
		told, stop := follow(t, board)
		after := func(d time.Duration, err error) func(context.Context, id.Retry) error {
			return func(ctx context.Context, _ id.Retry) error {
				timer := time.NewTimer(d)
				defer timer.Stop()
				<-timer.C
				return err
			}
		}
		for range 100 {
			if err := c.call(t.Context(), callTarget{"coordinator", "a task"}, after(2*time.Second, nil)); err != nil {
				t.Error(err)
			}
		}
		if len(*told) != 0 {
			t.Errorf("told %q", *told)
		}
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				_ = c.within(t.Context(), time.Hour, callTarget{"pserver 1", "round 7"}, after(time.Duration(i+4)*time.Second, nil))
			})
		}
		group.Wait()
		<-time.After(2 * time.Second)
		gone := fault.New(fault.Unavailable, "nobody is there")
		if err := c.call(t.Context(), callTarget{"coordinator", "the next generation"}, after(0, gone)); !errors.Is(err, fault.Unavailable) {
			t.Error(err)
		}
		<-time.After(2 * time.Second)
		stop()
		got := *told
		if len(got) != 4 || got[0] != "round 7 of pserver 1, 1h0m0s;" || got[1] != "" ||
			!strings.HasPrefix(got[2], "the next generation of coordinator: ") || !strings.Contains(got[2], "nobody is there, 1m0") || got[3] != "" {
			t.Errorf("told %q", got)
		}
	})
}
