package pserver

import (
	"context"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
)

// wait is what Status tells of a call that waits.
type wait struct {
	reason string
	since  time.Time
}

// await blocks until ok, which is called with s.mu held, reports true. It ends early with the server's failure, with the end of the job, or
// with ctx. reason, which is called with s.mu held, says what is waited for; it stands in Status as long as the wait lasts.
func (s *Server) await(ctx context.Context, reason func() string, ok func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now()
	id := s.nextWait
	s.nextWait++
	defer delete(s.waits, id)
	for !ok() {
		w := wait{reason: reason(), since: since}
		switch {
		case s.err != nil:
			return s.err
		case s.finished:
			return &fault.Fault{Kind: fault.Stale, Where: s.where(), Got: "the end of the job while waiting for " + w.reason}
		case ctx.Err() != nil:
			return &fault.Fault{Kind: contextKind(ctx), Where: s.where(), Got: "no end of waiting for " + w.reason, Err: context.Cause(ctx)}
		}
		s.waits[id] = w
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return s.err
}

func contextKind(ctx context.Context) fault.Kind {
	if ctx.Err() == context.DeadlineExceeded {
		return fault.DeadlineExceeded
	}
	return fault.Canceled
}

// broadcast wakes everyone who waits. s.mu is held.
func (s *Server) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Fail ends the server with err, unless it has ended already: everyone who waits for it, and everyone who calls it from now on, is told err.
func (s *Server) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// fail is Fail. s.mu is held.
func (s *Server) fail(err error) {
	if s.err == nil && !s.finished {
		s.err = err
		s.stopDeadline()
		close(s.failed)
		s.broadcast()
	}
}

// finish ends the server in good order. s.mu is held.
func (s *Server) finish() {
	if s.err == nil && !s.finished {
		s.finished = true
		s.stopDeadline()
		close(s.done)
		s.broadcast()
	}
}

// where names this server in messages.
func (s *Server) where() string {
	return fmt.Sprintf("pserver %d of job %s", s.cfg.Index, s.cfg.Identity.Job)
}
