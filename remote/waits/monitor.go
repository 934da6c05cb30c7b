package waits

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// A Monitor is a mutex with the waits for changes of the state that it guards. Whoever changes that state calls Broadcast. The zero Monitor, with
// Where set, is ready; a Monitor must not be copied.
type Monitor struct {
	Where string // whose state it is, as errors name it; constant

	mu      sync.Mutex
	changed chan struct{} // closed by the next Broadcast; nil while nobody sleeps
	version uint64        // counts broadcasts
	waiting map[*waiting]struct{}
	count   uint64 // of entries in waiting so far
	ended   bool
	err     error // why it ended
}

// waiting is a call of Await.
type waiting struct {
	reason func() Wait
	since  time.Time
	order  uint64

	given   time.Time     // Since, as reason gave it last
	stopped time.Duration // for which this process did not run since then
}

// now is what the call waits for now. Its limit does not count the time for which this process was stopped: see Countdown. The lock is held.
func (w *waiting) now() Wait {
	now := w.reason()
	now.order = w.order
	if !now.Since.Equal(w.given) { // another wait begins, or reason has left that time out itself
		w.given, w.stopped = now.Since, 0
	}
	if now.Since.IsZero() {
		now.Since = w.since
	}
	if w.stopped > 0 && !now.end().IsZero() {
		now.Until = now.end().Add(w.stopped)
		now.Since = now.Since.Add(w.stopped)
	}
	return now
}

var _ sync.Locker = (*Monitor)(nil)

// Lock takes the lock of the state.
func (m *Monitor) Lock() { m.mu.Lock() }

// Unlock frees the lock of the state.
func (m *Monitor) Unlock() { m.mu.Unlock() }

// Broadcast wakes everyone who waits, to look at the state again. The lock is held.
func (m *Monitor) Broadcast() {
	m.version++
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// Version counts the broadcasts so far: a condition that compares it with an earlier value waits for any change since. The lock is held.
func (m *Monitor) Version() uint64 { return m.version }

// End ends every wait, now and from now on: with err, or where err is nil, with fault.Stale unless its condition holds. Only the first call counts;
// End reports whether this was it. The lock is held.
func (m *Monitor) End(err error) bool {
	if m.ended {
		return false
	}
	m.ended, m.err = true, err
	m.Broadcast()
	return true
}

// Ended reports whether End was called. The lock is held.
func (m *Monitor) Ended() bool { return m.ended }

// Err is the error that End was called with; nil before. The lock is held.
func (m *Monitor) Err() error { return m.err }

// Await blocks until ok returns true or an error, which Await returns. It ends early when the Monitor has ended, when ctx has, and when the time that
// reason gives has passed. Time for which this process was stopped does not count against it, as for a Countdown.
//
// Await takes the lock, and calls ok and reason with it held. It calls ok at once and after every Broadcast. It calls reason, which says what is
// waited for, whenever ok has returned false; List calls it too. So reason must be cheap and change nothing.
func (m *Monitor) Await(ctx context.Context, reason func() Wait, ok func() (bool, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &waiting{reason: reason}
	var slept time.Time     // when the last sleep began
	var asked time.Duration // its length
	var given time.Time     // w.given then
	for {
		if m.err != nil {
			return m.err
		}
		switch done, err := ok(); {
		case err != nil:
			return err
		case done:
			return m.err // that ok has ended it with
		}
		if w.since.IsZero() { // a wait that has to be entered
			m.count++
			w.since, w.order = time.Now(), m.count
			if m.waiting == nil {
				m.waiting = map[*waiting]struct{}{}
			}
			m.waiting[w] = struct{}{}
			defer delete(m.waiting, w)
		}
		if asked > 0 && given.Equal(w.given) {
			w.stopped += stoppedIn(time.Since(slept), asked)
		}
		now := w.now()
		switch {
		case m.err != nil:
			return m.err
		case m.ended:
			return fault.E(fault.Stale, fault.At(m.Where), fault.Cause(errors.New("the job ended while waiting for "+now.told().String())))
		case ctx.Err() != nil:
			return GaveUp(ctx, m.Where, now.told())
		case !now.end().IsZero() && !time.Now().Before(now.end()):
			return TimedOut(m.Where, now.told())
		}
		slept, asked, given = time.Now(), 0, w.given
		if end := now.end(); !end.IsZero() {
			asked = max(min(partOf(end.Sub(now.Since)), end.Sub(slept)), 1)
		}
		m.sleep(ctx, asked)
	}
}

// sleep lets others change the state until they have, ctx has ended, or the time has passed; 0: without limit. The lock is held before and after.
func (m *Monitor) sleep(ctx context.Context, most time.Duration) {
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	changed := m.changed
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	case <-late:
	}
}

// List returns what is waited for now, the oldest first. The lock is held.
func (m *Monitor) List() []*job.Wait {
	var list []Wait
	for w := range m.waiting {
		if now := w.now(); !now.Unlisted {
			list = append(list, now.told())
		}
	}
	return messages(list)
}

// GaveUp is the error of a wait whose context has ended. Its kind is fault.DeadlineExceeded when the time of the context has passed, else
// fault.Canceled.
func GaveUp(ctx context.Context, where string, w Wait) *fault.Fault {
	kind, text := fault.Canceled, "stopped waiting for "
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind, text = fault.DeadlineExceeded, "timed out waiting for "
	}
	return fault.E(kind, fault.At(where), fault.Cause(&endOfWait{text + w.String(), context.Cause(ctx)}))
}

// endOfWait says what was waited for, and unwraps to what ended the wait.
type endOfWait struct {
	text  string
	cause error
}

func (e *endOfWait) Error() string {
	if e.cause == nil || errors.Is(e.cause, context.DeadlineExceeded) || errors.Is(e.cause, context.Canceled) {
		return e.text
	}
	return e.text + ": " + e.cause.Error()
}

func (e *endOfWait) Unwrap() error { return e.cause }
