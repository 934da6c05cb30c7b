package pserver

import (
	"context"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
)

// await blocks until ok, which is called with s.mu held, reports true. It ends early with the server's failure or with ctx. reason says what is
// waited for; it stands in Status as long as the wait lasts.
func (s *Server) await(ctx context.Context, reason func() string, ok func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now()
	id := s.nextWait
	s.nextWait++
	for !ok() {
		if s.err != nil {
			return s.err
		}
		s.waits[id] = wait{reason: reason(), since: since}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			w := s.waits[id]
			delete(s.waits, id)
			return &fault.Fault{Kind: contextKind(ctx), Where: s.where(), Got: "no end of waiting for " + w.reason, Err: context.Cause(ctx)}
		}
	}
	delete(s.waits, id)
	return s.err
}

type wait struct {
	reason string
	since  time.Time
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

// fail ends the server with err, unless it has ended already.
func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.finished {
		s.err = err
		close(s.failed)
		s.broadcast()
	}
}

// where names this server in messages.
func (s *Server) where() string {
	return fmt.Sprintf("pserver %d of job %s", s.cfg.Index, s.cfg.Identity.Job)
}

// missingFault names the trainers that a round, or the end of the job, waits for.
func (s *Server) missingFault(what string, ranks []int, after time.Duration) error {
	return &fault.Fault{Kind: fault.LostMember, Where: s.where(), Got: fmt.Sprintf("%s still waits for %s after %v", what, s.trainers(ranks), after.Round(time.Millisecond)),
		Want: "every trainer's contribution", Hint: "look at that trainer's log, or raise round_deadline"}
}

// trainers describes ranks with when each was last heard of. s.mu is held.
func (s *Server) trainers(ranks []int) string {
	text := ""
	for i, rank := range ranks {
		if i > 0 {
			text += ", "
		}
		seen := "never heard of"
		if t := s.seen[rank]; !t.IsZero() {
			seen = fmt.Sprintf("last heard of %v ago", time.Since(t).Round(time.Millisecond))
		}
		text += fmt.Sprintf("trainer %d (%s)", rank, seen)
	}
	return text
}
