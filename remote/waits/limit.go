package waits

import (
	"context"
	"sync"
	"time"
)

// WithLimit returns a context that ends with context.DeadlineExceeded when a limit is over, counted as a Countdown does: time for which this process was stopped does not count, because who is waited
// for may have been stopped, too. It has the deadline of parent, and not one of its own: nobody can say yet when it ends. Its caller calls cancel.
func WithLimit(parent context.Context, limit time.Duration) (_ context.Context, cancel context.CancelFunc) {
	l := &limited{Context: parent, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	var next time.Duration
	l.left, next = NewCountdown(limit, time.Now())
	l.timer = time.AfterFunc(next, l.tick)
	l.unbind = context.AfterFunc(parent, func() { l.end(parent.Err()) })
	return l, func() { l.end(context.Canceled) }
}

// limited is a context of WithLimit. The contexts below it, as of calls, are told of its end by AfterFunc: none costs a goroutine.
type limited struct {
	context.Context // parent
	done            chan struct{}
	unbind          func() bool // from parent

	mu    sync.Mutex
	left  Countdown
	timer *time.Timer
	err   error
	after map[*byte]func()
}

func (l *limited) tick() { l.look(time.Now()) }

// look ends the context if its limit is over, or else looks again in time.
func (l *limited) look(now time.Time) {
	l.mu.Lock()
	over := false
	if l.err == nil {
		next, _ := l.left.Look(now)
		if over = next <= 0; !over {
			l.timer.Reset(next)
		}
	}
	l.mu.Unlock()
	if over {
		l.end(context.DeadlineExceeded)
	}
}

// end ends the context, once.
func (l *limited) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	l.timer.Stop()
	l.unbind()
	close(l.done)
	for _, f := range l.after {
		go f() // as context.AfterFunc does
	}
	l.after = nil
}

// Done implements context.Context.
func (l *limited) Done() <-chan struct{} { return l.done }

// Err implements context.Context.
func (l *limited) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// AfterFunc is what package context calls in place of a goroutine that waits for Done.
func (l *limited) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		go f()
		return func() bool { return false }
	}
	key := new(byte)
	if l.after == nil {
		l.after = map[*byte]func(){}
	}
	l.after[key] = f
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, waits := l.after[key]
		delete(l.after, key)
		return waits
	}
}
