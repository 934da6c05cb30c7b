package trainer

import (
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// A caller makes the calls of a trainer. It repeats a call while the other side is unavailable, for a bounded time. Every call is a wait, which the
// trainer lists.
type caller struct {
	unavailable time.Duration   // how long a call is repeated while the other side is unavailable
	drain       <-chan struct{} // closed when the trainer is to end: then a call is not repeated; may be nil
	waits       *waits.Board    // lists the calls that are under way; may be nil
}

// A callTarget says who is called and for what, as messages say it.
type callTarget struct{ who, what string }

// A request is sent once by each call of the function. It has no deadline of its own: it may wait for what others do. It must call with
// grpc.WaitForReady(false).
type request func(ctx context.Context, retry id.Retry) error

// call sends a request until it succeeds or fails with anything but fault.Unavailable.
func (c caller) call(ctx context.Context, target callTarget, do request) error {
	w := c.begin(target, 0)
	defer w.end()
	err := wire.RetryWithin(ctx, c.unavailable, func(retry id.Retry) error { return w.send(ctx, do, retry) })
	switch {
	case !errors.Is(err, fault.Unavailable):
	case ctx.Err() != nil: // the caller gave up before the time was over
		return fault.E(fault.Canceled, fault.At(target.who), fault.Got("the end of the call for "+target.what), fault.Cause(context.Cause(ctx)))
	default:
		return fault.E(fault.Unavailable, fault.At(target.who), fault.Gotf("no answer to the call for %s within %v", target.what, c.unavailable),
			fault.Cause(err))
	}
	return err
}

// within is call with a deadline for the request and all its retries together.
func (c caller) within(ctx context.Context, limit time.Duration, target callTarget, do request) error {
	w := c.begin(target, limit)
	defer w.end()
	return w.repeat(ctx, time.Now().Add(limit), do)
}

func (c caller) draining() bool {
	select {
	case <-c.drain:
		return true
	default:
		return false
	}
}

// untilDrain ends ctx also when the trainer is to end, for what would wait for others.
func (c caller) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.drain != nil {
		go func() {
			select {
			case <-c.drain:
				cancel(fault.Drained)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// A callWait is a call that is under way, and its entry in the list of waits. Its retries follow each other.
type callWait struct {
	caller
	callTarget
	limited bool         // the request and its retries together have a deadline
	entry   *waits.Entry // nil without a list
}

// begin enters a call into the list of waits, until end.
func (c caller) begin(target callTarget, limit time.Duration) *callWait {
	w := &callWait{caller: c, callTarget: target, limited: limit > 0}
	if c.waits != nil {
		w.entry = c.waits.Begin(waits.Wait{What: target.what, By: []string{target.who}, Limit: limit})
	}
	return w
}

// repeat sends the request until it succeeds, fails with anything but fault.Unavailable, or the time has come.
func (w *callWait) repeat(ctx context.Context, until time.Time, do request) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return wire.Retry(ctx, func(retry id.Retry) error { return w.send(ctx, do, retry) })
}

// send sends the request once. No retry follows when the trainer is to end.
func (w *callWait) send(ctx context.Context, do request, retry id.Retry) error {
	err := wire.FromStatus(w.who, do(ctx, retry))
	w.note(err)
	if errors.Is(err, fault.Unavailable) && w.draining() {
		return fault.E(fault.Drained, fault.Got(err.Error()))
	}
	return err
}

// note lists how one sending ended. For a call without a deadline, the first one that finds the other side unavailable starts the time limit.
func (w *callWait) note(err error) {
	if w.entry == nil || err == nil {
		return
	}
	w.entry.Update(func(listed *waits.Wait) {
		listed.LastError = err.Error()
		switch {
		case w.limited:
		case !errors.Is(err, fault.Unavailable):
			listed.Until = time.Time{}
		case listed.Until.IsZero():
			listed.Until = time.Now().Add(w.unavailable)
		}
	})
}

func (w *callWait) end() {
	if w.entry != nil {
		w.entry.End()
	}
}
