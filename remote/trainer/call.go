package trainer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// asking is how a trainer calls others: again and again while they are unavailable, for a bounded time, and with a line in the log when that, or the
// answer, takes long.
type asking struct {
	patience time.Duration   // with somebody who is unavailable
	limit    time.Duration   // of one call; 0: none
	drain    <-chan struct{} // closed when the trainer is to end: nobody who is gone is waited for then; may be nil
	log      *slog.Logger    // may be nil
	board    *waits.Board    // lists what is waited for; may be nil
}

// A question is one call.
type question struct {
	of, what string // who is called, and for what, as messages say it
}

// call makes attempts until one succeeds or fails with anything but fault.Unavailable. An attempt has no deadline: it may wait for what others do. It
// must be made with grpc.WaitForReady(false).
func (a asking) call(ctx context.Context, q question, attempt func(ctx context.Context, number uint32) error) error {
	one, end := a.attempts(ctx, q, attempt)
	defer end()
	err := wire.RetryWithin(ctx, a.patience, one)
	switch {
	case !errors.Is(err, fault.Unavailable):
	case ctx.Err() != nil: // it was given up before patience was at an end
		return fault.E(fault.Canceled, fault.At(q.of), fault.Got("the end of the call for "+q.what), fault.Cause(context.Cause(ctx)))
	default:
		return fault.E(fault.Unavailable, fault.At(q.of), fault.Gotf("no answer to the call for %s within %v", q.what, a.patience),
			fault.Cause(err))
	}
	return err
}

// within is call with a deadline for all attempts together.
func (a asking) within(ctx context.Context, limit time.Duration, q question, attempt func(ctx context.Context, number uint32) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a.limit = limit
	one, end := a.attempts(ctx, q, attempt)
	defer end()
	return wire.Retry(ctx, one)
}

// attempts returns what makes one attempt, as a wait that lasts until end.
func (a asking) attempts(ctx context.Context, q question,
	attempt func(ctx context.Context, number uint32) error) (one func(number uint32) error, end func()) {
	w := a.wait(q)
	return func(number uint32) error {
		err := wire.FromStatus(q.of, attempt(ctx, number))
		w.heard(err)
		return a.last(err)
	}, w.end
}

// last makes an attempt the last one when the trainer is to end.
func (a asking) last(err error) error {
	if errors.Is(err, fault.Unavailable) && a.draining() {
		return fault.E(fault.Drained, fault.Got(err.Error()))
	}
	return err
}

func (a asking) draining() bool {
	select {
	case <-a.drain:
		return true
	default:
		return false
	}
}

// untilDrain ends ctx also when the trainer is to end, for what would wait for others.
func (a asking) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if a.drain != nil {
		go func() {
			select {
			case <-a.drain:
				cancel(fault.Drained)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// longWait is after what time a wait is worth a line in the log, and how often while it goes on.
const longWait = 10 * time.Second

// A wait is listed on the board, and tells the log when it takes long.
type wait struct {
	question
	asking
	since time.Time
	entry *waits.Entry
	mu    sync.Mutex
	timer *time.Timer // nil when the wait has ended, or where there is no log
	err   error       // of the last attempt
	until time.Time   // when the wait is given up; zero: it is not, as long as somebody answers
}

// Wait begins a wait of a trainer that is not a call of Run, until end.
func Wait(log *slog.Logger, board *waits.Board, of, what string) (end func()) {
	return asking{log: log, board: board}.wait(question{of, what}).end
}

func (a asking) wait(q question) *wait {
	w := &wait{question: q, asking: a, since: time.Now()}
	if w.limit > 0 {
		w.until = w.since.Add(w.limit)
	}
	w.entry = a.board.Begin(waits.Wait{What: q.what, By: []string{q.of}, Since: w.since, Until: w.until})
	if w.log != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timer = time.AfterFunc(longWait, w.tell)
	}
	return w
}

// tell writes a line.
func (w *wait) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return
	}
	w.timer.Reset(longWait)
	about := []any{"for", w.what, "of", w.of, "since", time.Since(w.since).Round(time.Second).String()}
	if w.err != nil {
		about = append(about, "last error", w.err.Error())
	}
	w.log.Warn("still waits", about...)
}

// heard notes how an attempt ended. From the first that finds nobody on the wait has an end.
func (w *wait) heard(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.err = err; {
	case w.limit > 0:
	case !errors.Is(err, fault.Unavailable):
		w.until = time.Time{}
	case w.until.IsZero():
		w.until = time.Now().Add(w.patience)
	}
	w.entry.Update(func(listed *waits.Wait) {
		if listed.Until, listed.LastError = w.until, ""; err != nil {
			listed.LastError = err.Error()
		}
	})
}

func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	w.entry.End()
}
