package trainer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// asking is how a trainer calls others: again and again while they are unavailable, for a bounded time, and with a line in the log when that, or the
// answer, takes long.
type asking struct {
	patience time.Duration   // with somebody who is unavailable
	limit    time.Duration   // of one call; 0: none
	drain    <-chan struct{} // closed when the trainer is to end: nobody who is gone is waited for then; may be nil
	log      *slog.Logger    // may be nil
	waits    *waits          // that are told; may be nil
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

const (
	tellAfter = 3 * time.Second  // a wait is told to those who ask why a job does not go on
	longWait  = 10 * time.Second // after what time a wait is worth a line in the log, and how often while it goes on
)

// A wait tells what is waited for, when it takes long.
type wait struct {
	question
	asking
	since time.Time
	mu    sync.Mutex
	timer *time.Timer // nil when the wait has ended
	err   error       // of the last attempt
	until time.Time   // when the wait is given up; zero: it is not, as long as somebody answers
	told  bool
}

// Wait begins a wait of a trainer that is not a call of Run, until end.
func Wait(log *slog.Logger, of, what string) (end func()) {
	return asking{log: log, waits: newWaits(log)}.wait(question{of, what}).end
}

func (a asking) wait(q question) *wait {
	w := &wait{question: q, asking: a, since: time.Now()}
	if w.limit > 0 {
		w.until = w.since.Add(w.limit)
	}
	if w.log != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timer = time.AfterFunc(tellAfter, w.tell)
	}
	return w
}

func (w *wait) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return
	}
	w.waits.add(w, !w.told)
	w.told = true
	lasted := time.Since(w.since)
	if lasted < longWait {
		w.timer.Reset(longWait - lasted)
		return
	}
	w.timer.Reset(longWait)
	about := []any{"for", w.what, "of", w.of, "since", lasted.Round(time.Second).String()}
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
}

func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if w.told {
		w.waits.remove(w.of)
	}
	w.told = false
}

// waits are the long waits of a trainer, one for each of those who are waited for: the one that was told first stands for the others until all have
// ended. So they say no more than twice for each of them that they wait, in a time of tellAfter, however many calls are under way. A nil one tells
// nothing.
type waits struct {
	log  *slog.Logger
	mu   sync.Mutex
	list []*longOne
}

type longOne struct {
	of    string
	count int // of waits
	said  *job.Wait
}

func newWaits(log *slog.Logger) *waits {
	if log == nil {
		return nil
	}
	return &waits{log: log}
}

// add tells a wait, whose lock is held, or that it goes on.
func (l *waits) add(w *wait, first bool) {
	if l == nil {
		return
	}
	said := &job.Wait{What: w.what, By: []string{w.of}, Since: timestamppb.New(w.since)}
	if w.err != nil {
		said.LastError = w.err.Error()
	}
	if !w.until.IsZero() {
		said.Until = timestamppb.New(w.until)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.list {
		if have.of != w.of {
			continue
		}
		if first {
			have.count++
		}
		if have.said.What == said.What && have.said.LastError != said.LastError {
			have.said = said
			l.tell()
		}
		return
	}
	l.list = append(l.list, &longOne{w.of, 1, said})
	l.tell()
}

// remove ends a wait that was told.
func (l *waits) remove(of string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, have := range l.list {
		if have.of != of {
			continue
		}
		if have.count--; have.count == 0 {
			l.list = append(l.list[:i], l.list[i+1:]...)
			l.tell()
		}
		return
	}
}

// tell writes the line. l.mu is held, so that lines come in order.
func (l *waits) tell() {
	var said []*job.Wait
	for _, one := range l.list {
		said = append(said, one.said)
	}
	l.log.Info(wire.WaitsText(said))
}
