// Package eventlog keeps the last entries of something that happens in order, such as the events of a job or the lines of its log. Any number of
// readers follow it, each at its own pace.
package eventlog

import (
	"context"
	"sync"
)

// Log is an append-only list that forgets its oldest half when it is full. It is safe for concurrent use.
type Log[T any] struct {
	max     int
	bytes   int         // of all entries, where they are counted
	limit   int         // of bytes
	size    func(T) int // nil where bytes are not counted
	mu      sync.Mutex
	entries []T
	dropped uint64 // entries that were forgotten
	closed  bool
	changed chan struct{} // closed and replaced at every change
}

// New returns a log that keeps at most max entries, at least 2.
func New[T any](max int) *Log[T] { return &Log[T]{max: max, changed: make(chan struct{})} }

// NewSized returns a log that keeps at most max entries, at least 2, and at most limit bytes in all, as size counts them. A single entry may be
// larger.
func NewSized[T any](max, limit int, size func(T) int) *Log[T] {
	l := New[T](max)
	l.limit, l.size = limit, size
	return l
}

// Add appends an entry. After End it does nothing.
func (l *Log[T]) Add(e T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if len(l.entries) >= l.max {
		l.forget(len(l.entries) / 2)
	}
	if l.size != nil {
		l.bytes += l.size(e)
		for len(l.entries) > 0 && l.bytes > l.limit {
			l.forget((len(l.entries) + 1) / 2)
		}
	}
	l.entries = append(l.entries, e)
	l.wake()
}

// forget drops the oldest n entries. l.mu is held.
func (l *Log[T]) forget(n int) {
	if l.size != nil {
		for _, e := range l.entries[:n] {
			l.bytes -= l.size(e)
		}
	}
	l.entries = append([]T(nil), l.entries[n:]...)
	l.dropped += uint64(n)
}

// End says that no entry will follow.
func (l *Log[T]) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.wake()
	}
}

func (l *Log[T]) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Read calls send with the kept entries from a number on, in order. The first entry of all is number 0. A gap between two numbers means that the
// entries between them were forgotten before they were read. With follow, Read waits for entries until the log has ended; else it returns after the
// last one. It returns the first error of send, or that of ctx when it ends.
func (l *Log[T]) Read(ctx context.Context, from uint64, follow bool, send func(number uint64, e T) error) error {
	for next := from; ; {
		l.mu.Lock()
		next = min(max(next, l.dropped), l.dropped+uint64(len(l.entries)))
		batch, closed, changed := l.entries[next-l.dropped:], l.closed, l.changed
		l.mu.Unlock()
		for _, e := range batch {
			if err := send(next, e); err != nil {
				return err
			}
			next++
		}
		if len(batch) > 0 {
			continue
		}
		if closed || !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
