package waits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A context with a limit ends when the process has run for so long, and contexts below it with the same error. Parts in which the process was stopped do not count.
func TestLimit(t *testing.T) {
	for name, stops := range map[string]int{"runs": 0, "was stopped once": 1, "was stopped twice": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := WithLimit(t.Context(), time.Minute)
				defer cancel()
				below, stop := context.WithCancel(ctx)
				defer stop()
				for range stops { // a look that comes an hour late
					l := ctx.(*limited)
					l.look(l.left.from.Add(time.Hour))
					if ctx.Err() != nil {
						t.Fatalf("it ends while the process is stopped: %v", ctx.Err())
					}
					l.mu.Lock()
					l.left.from = time.Now() // and the clock of the test is that of the process
					l.mu.Unlock()
				}
				<-below.Done()
				if passed := time.Since(began); passed != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(below.Err(), context.DeadlineExceeded) {
					t.Errorf("after %v: %v and %v", passed, ctx.Err(), below.Err())
				}
			})
		})
	}
}

// The end of the parent, with its cause, and cancel end the context before its limit.
func TestLimitEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		parent, end := context.WithCancelCause(t.Context())
		ctx, cancel := WithLimit(parent, time.Minute)
		told := make(chan struct{})
		unused := context.AfterFunc(ctx, func() { t.Error("a function is called that was taken back") })
		context.AfterFunc(ctx, func() { close(told) })
		if !unused() || unused() {
			t.Error("a function is not taken back, or twice")
		}
		end(cause)
		<-told
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), cause) {
			t.Errorf("the end of the parent: %v, %v", ctx.Err(), context.Cause(ctx))
		}
		cancel()
		again := make(chan struct{})
		context.AfterFunc(ctx, func() { close(again) })
		<-again

		ctx, cancel = WithLimit(t.Context(), time.Minute)
		cancel()
		<-ctx.Done()
		time.Sleep(time.Hour)
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("after cancel: %v", ctx.Err())
		}
	})
}
