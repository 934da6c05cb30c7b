// Package eventlog keeps the last entries of something that happens in order, such as the events of a job or the lines of its log. Any number of
// readers follow it, each at its own pace, entry by entry (Read) or in batches (ReadBatches).
package eventlog

import (
	"context"
	"sync"
	"time"
)

// Log is an append-only list that forgets its oldest half when it is full. It is safe for concurrent use.
type Log[T any] struct {
	max     int
	bytes   int         // of all entries, where they are counted
	limit   int         // of bytes
	size    func(T) int // nil where bytes are not counted
	mu      sync.Mutex
	entries []T
	dropped uint64        // entries that were forgotten
	changed chan struct{} // closed at the next change; nil while nobody waits for it
	ended   chan struct{} // closed by End
}

// New returns a log that keeps at most max entries, at least 2.
func New[T any](max int) *Log[T] { return &Log[T]{max: max, ended: make(chan struct{})} }

// NewSized returns a log that keeps at most max entries, at least 2, and at most limit bytes in all, as size counts them. A single entry may be
// larger.
func NewSized[T any](max, limit int, size func(T) int) *Log[T] {
	l := New[T](max)
	l.limit, l.size = limit, size
	return l
}

// Add appends entries. After End it does nothing.
func (l *Log[T]) Add(entries ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over() || len(entries) == 0 {
		return
	}
	for _, e := range entries {
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
	}
	l.wake()
}

// Skip makes a number that of the next entry. If it is not the next one anyway, all entries before it are forgotten.
func (l *Log[T]) Skip(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number > l.dropped+uint64(len(l.entries)) {
		l.entries, l.bytes, l.dropped = nil, 0, number
	}
}

// Next is the number of the next entry.
func (l *Log[T]) Next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped + uint64(len(l.entries))
}

// over reports whether End was called. l.mu is held.
func (l *Log[T]) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
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
	if !l.over() {
		close(l.ended)
		l.wake()
	}
}

// wake wakes the readers that wait for a change. l.mu is held.
func (l *Log[T]) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Read calls send with the kept entries from a number on, in order. The first entry of all is number 0. A gap between two numbers means that the
// entries between them were forgotten before they were read. With follow, Read waits for entries until the log has ended; else it returns after the
// last one. It returns the first error of send, or that of ctx when it ends.
func (l *Log[T]) Read(ctx context.Context, from uint64, follow bool, send func(number uint64, e T) error) error {
	return l.read(ctx, from, follow, 0, func(number uint64, entries []T) error {
		for i, e := range entries {
			if err := send(number+uint64(i), e); err != nil {
				return err
			}
		}
		return nil
	})
}

// Bounds of a batch of ReadBatches. A single entry may have more bytes.
const (
	batchEntries = 1024
	batchBytes   = 1 << 20
)

// ReadBatches is Read with follow that calls send with several entries at once, which must not be changed; number is that of the first of them. When
// entries have been sent, those that come within every are sent together at the end of that time, or at the end of the log. So an entry that comes
// after a pause is sent at once, and no entry waits longer than every.
func (l *Log[T]) ReadBatches(ctx context.Context, from uint64, every time.Duration, send func(number uint64, entries []T) error) error {
	return l.read(ctx, from, true, every, func(number uint64, entries []T) error {
		for len(entries) > 0 {
			n := l.batch(entries)
			if err := send(number, entries[:n:n]); err != nil {
				return err
			}
			number, entries = number+uint64(n), entries[n:]
		}
		return nil
	})
}

// batch returns how many of the entries, at least one, are sent together.
func (l *Log[T]) batch(entries []T) int {
	entries = entries[:min(len(entries), batchEntries)]
	if l.size == nil {
		return len(entries)
	}
	bytes := 0
	for i, e := range entries {
		if bytes += l.size(e); bytes > batchBytes && i > 0 {
			return i
		}
	}
	return len(entries)
}

// read calls send with all entries that have come, and not more often than every.
func (l *Log[T]) read(ctx context.Context, from uint64, follow bool, every time.Duration, send func(number uint64, entries []T) error) error {
	for next := from; ; {
		l.mu.Lock()
		next = min(max(next, l.dropped), l.dropped+uint64(len(l.entries)))
		entries, over := l.entries[next-l.dropped:], l.over()
		if l.changed == nil && len(entries) == 0 {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		switch {
		case len(entries) > 0:
			if err := send(next, entries); err != nil {
				return err
			}
			next += uint64(len(entries))
			if err := l.pause(ctx, every); err != nil {
				return err
			}
			continue
		case over || !follow:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause returns after a time, or at the end of the log.
func (l *Log[T]) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
