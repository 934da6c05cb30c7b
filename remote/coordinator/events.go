package coordinator

import (
	"context"
	"fmt"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// maxEvents bounds the history that a late watcher can still read.
const maxEvents = 1 << 16

// eventLog is the ordered stream of a job's events. Any number of readers follow it, each at its own pace.
type eventLog struct {
	mu      sync.Mutex
	events  []*job.Event
	dropped int // events that the history no longer holds
	closed  bool
	changed chan struct{}
}

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

func (l *eventLog) add(e *job.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if len(l.events) == maxEvents {
		half := maxEvents / 2
		l.events = append([]*job.Event(nil), l.events[half:]...)
		l.dropped += half
	}
	l.events = append(l.events, e)
	l.wake()
}

// end marks that no event will follow.
func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.wake()
	}
}

func (l *eventLog) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// follow calls send with every event from the first on, until the log has ended or ctx does.
func (l *eventLog) follow(ctx context.Context, send func(*job.Event) error) error {
	for next := 0; ; {
		l.mu.Lock()
		if next < l.dropped {
			l.mu.Unlock()
			return &fault.Fault{Kind: fault.TooLarge, Got: fmt.Sprintf("a reader that is more than %d events behind", maxEvents/2)}
		}
		batch, closed, changed := l.events[next-l.dropped:], l.closed, l.changed
		l.mu.Unlock()
		for _, e := range batch {
			if err := send(e); err != nil {
				return err
			}
		}
		next += len(batch)
		if len(batch) > 0 {
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
