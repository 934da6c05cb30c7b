package launch_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
)

func TestGoroutine(t *testing.T) {
	waits := func(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
		fmt.Fprintln(log, "ready")
		<-ctx.Done()
		return ctx.Err()
	}
	for _, c := range []struct {
		name string
		run  func(context.Context, *job.RoleSpec, io.Writer) error
		stop bool
		kind fault.Kind
		says string
	}{
		{name: "succeeds", run: func(_ context.Context, _ *job.RoleSpec, log io.Writer) error {
			fmt.Fprint(log, "ready")
			return nil
		}, kind: fault.OK},
		{name: "fails", run: func(_ context.Context, _ *job.RoleSpec, log io.Writer) error {
			fmt.Fprintln(log, "ready")
			return fault.New(fault.NotFinite, "loss is NaN")
		}, kind: fault.NotFinite, says: "loss is NaN"},
		{name: "panics", run: func(_ context.Context, _ *job.RoleSpec, log io.Writer) error {
			fmt.Fprintln(log, "ready")
			panic("impossible")
		}, kind: fault.Internal, says: "panic: impossible"},
		{name: "is stopped", run: waits, stop: true, kind: fault.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, log := start(t, launch.Goroutines(c.run))
			log.until(t, "ready")
			if c.stop {
				h.Stop(patience)
			}
			if c.kind != fault.OK {
				expectFault(t, h.Wait(), c.kind, "trainer 1 of job digits", c.says)
			} else if err := h.Wait(); err != nil {
				t.Fatal(err)
			}
			if h.Pid() != 0 || h.Node() != "" {
				t.Fatalf("pid %d on node %q", h.Pid(), h.Node())
			}
		})
	}
}

func TestKillGoroutine(t *testing.T) {
	h, log := start(t, launch.Goroutines(untilStopped))
	log.until(t, "ready")
	h.Kill()
	if err := h.Wait(); err != nil {
		t.Error(err)
	}
	log.until(t, "drained")
}

// A role that does not end is given up, and its error says so.
func TestGoroutineDoesNotEnd(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	h, _ := start(t, launch.Goroutines(func(context.Context, *job.RoleSpec, io.Writer) error {
		<-release
		return nil
	}))
	h.Stop(0)
	expectFault(t, h.Wait(), fault.DeadlineExceeded, "trainer 1 of job digits", "still runs 0s after it was stopped")
}

// A goroutine reports its waits to its handle directly. The channel of Waits closes when they change.
func TestGoroutineReportsItsWaits(t *testing.T) {
	next := make(chan string)
	h, _ := start(t, launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		for what := range next {
			launch.ReportOf(ctx).Waits([]*job.Wait{{What: what}})
			launch.ReportOf(ctx).Waits([]*job.Wait{nil})     // is refused
			launch.ReportOf(context.Background()).Waits(nil) // tells nobody
		}
		return nil
	}))
	for _, what := range []string{"round 7", "round 8"} {
		_, changed := h.Waits()
		next <- what
		<-changed
		if list, _ := h.Waits(); len(list) != 1 || list[0].What != what {
			t.Errorf("it waits for %v", list)
		}
	}
	close(next)
	if err := h.Wait(); err != nil {
		t.Error(err)
	}
}
