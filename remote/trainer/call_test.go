package trainer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
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

// told returns what each line of a log that tells of waits says.
func told(log string) (all []string) {
	for line := range strings.Lines(log) {
		if waits, ok := wire.WaitsOf(line); ok {
			text := ""
			for _, w := range waits {
				text += w.What + " of " + w.By[0]
				if w.LastError != "" {
					text += ": " + w.LastError
				}
				if w.Until != nil {
					text += ", " + w.Until.AsTime().Sub(w.Since.AsTime()).String()
				}
				text += ";"
			}
			all = append(all, text)
		}
	}
	return all
}

// A trainer tells of what it waits for longer than a moment, once for each who is waited for, and of the end of that; of short waits it tells
// nothing.
func TestLongWaitsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		ask := asking{patience: time.Minute, log: log, waits: newWaits(log)}
		after := func(d time.Duration, err error) func(context.Context, uint32) error {
			return func(ctx context.Context, _ uint32) error {
				timer := time.NewTimer(d)
				defer timer.Stop()
				<-timer.C
				return err
			}
		}
		for range 100 {
			if err := ask.call(t.Context(), question{"coordinator", "a task"}, after(tellAfter-time.Second, nil)); err != nil {
				t.Error(err)
			}
		}
		if got := told(out.String()); len(got) != 0 {
			t.Errorf("told %q", got)
		}
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				_ = ask.within(t.Context(), time.Hour, question{"pserver 1", "round 7"}, after(tellAfter+time.Duration(i+1)*time.Second, nil))
			})
		}
		group.Wait()
		gone := fault.New(fault.Unavailable, "nobody is there")
		if err := ask.call(t.Context(), question{"coordinator", "the next generation"}, after(0, gone)); !errors.Is(err, fault.Unavailable) {
			t.Error(err)
		}
		Wait(log, "coordinator", "its address")()
		got := told(out.String())
		if len(got) < 4 || got[0] != "round 7 of pserver 1, 1h0m0s;" || got[1] != "" ||
			!strings.HasPrefix(got[2], "the next generation of coordinator: ") || !strings.Contains(got[2], "nobody is there, 1m0") || got[len(got)-1] != "" {
			t.Errorf("told %q", got)
		}
	})
}
