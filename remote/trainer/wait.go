package trainer

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
)

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
