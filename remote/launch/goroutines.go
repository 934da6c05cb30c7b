package launch

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
)

// Goroutines starts roles in this process. When Stop ends the context of a role, its cause is of kind fault.Drained. run must return soon after its
// context has ended; a run that does not is given up when the grace of Stop has passed.
func Goroutines(run func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error) Launcher {
	return goroutines(run)
}

type goroutines func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error

func (run goroutines) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (Handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.E(fault.Canceled, fault.At(nameOf(spec)), fault.Cause(context.Cause(ctx)))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	h := &goroutine{name: nameOf(spec), member: memberOf(spec), killTime: jobspec.DeadlinesOf(spec.Spec).LauncherKill, cancel: cancel, done: make(chan struct{}),
		renewals: newRenewals()}
	ctx = context.WithValue(context.WithValue(ctx, reportsKey{}, &h.reports), renewalsKey{}, h.renewals)
	out := newLines(log)
	go func() {
		defer cancel(nil)
		err := run.guarded(ctx, spec, out)
		out.Flush()
		h.end(err)
	}()
	return h, nil
}

// guarded makes a panic of one role the failure of that role alone.
func (run goroutines) guarded(ctx context.Context, spec *job.RoleSpec, log io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			_, _ = log.Write(debug.Stack())
			err = fault.E(fault.Internal, fault.Gotf("panic: %v", p))
		}
	}()
	return run(ctx, spec, log)
}

type goroutine struct {
	reports
	name     string
	member   cluster.Member
	killTime time.Duration // for which Kill waits
	cancel   context.CancelCauseFunc
	once     sync.Once
	renewing sync.Mutex // renewals.put
	renewals renewals
	done     chan struct{}
	err      error
}

// end records how the role ended, the first time.
func (h *goroutine) end(err error) {
	h.once.Do(func() {
		if err != nil {
			kind := fault.KindOf(err)
			if errors.Is(err, context.Canceled) {
				kind = fault.Canceled
			}
			h.err = named(h.name, h.member, kind, err)
		}
		close(h.done)
	})
}

func (h *goroutine) Wait() error {
	<-h.done
	return h.err
}

// Kill cancels the role. It waits for a moment, so that nothing of the role still runs in this process.
func (h *goroutine) Kill() {
	killed := fault.E(fault.LostMember, fault.At(h.name), fault.Got("killed"))
	h.cancelFor(h.killTime, killed, killed)
}

func (h *goroutine) Stop(grace time.Duration) {
	h.cancelFor(grace, fault.New(fault.Drained, "told to end"),
		fault.E(fault.DeadlineExceeded, fault.At(h.name), fault.Gotf("a role that still runs %v after it was stopped", grace)))
}

// cancelFor cancels the role, and after grace gives it up, with an error of its own.
func (h *goroutine) cancelFor(grace time.Duration, cause, givenUp error) {
	h.cancel(cause)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-h.done:
	case <-timer.C:
		h.end(givenUp)
	}
}

func (h *goroutine) Node() string { return "" }
func (h *goroutine) Pid() int     { return 0 }
