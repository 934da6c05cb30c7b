package pserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
)

// wait is something that a call, or the server itself, waits for.
type wait struct {
	what  string
	ranks []int    // trainers that are waited for
	by    []string // others that are
	since time.Time
	limit time.Duration // after which the wait fails; 0: it has no deadline of its own
}

// names returns who is waited for.
func (w wait) names() []string {
	var list []string
	for _, rank := range w.ranks {
		list = append(list, fmt.Sprintf("trainer %d", rank))
	}
	return append(list, w.by...)
}

// say describes what is waited for, and by whom. s.mu is held.
func (s *Server) say(w wait) string {
	var by []string
	for _, rank := range w.ranks {
		by = append(by, fmt.Sprintf("trainer %d (%s)", rank, s.heard(rank)))
	}
	return w.what + ": " + strings.Join(append(by, w.by...), ", ")
}

// await blocks until ok, which is called with s.mu held, reports true. It ends early with the server's failure, with the end of the job, with the
// limit of the wait, or with ctx. reason, which is called with s.mu held, says what is waited for; it stands in Status as long as the wait lasts.
func (s *Server) await(ctx context.Context, reason func() wait, ok func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now()
	id := s.nextWait
	s.nextWait++
	defer delete(s.waits, id)
	for !ok() {
		w := reason()
		w.since = since
		late := w.limit > 0 && time.Since(since) >= w.limit
		switch {
		case s.err != nil:
			return s.err
		case s.finished:
			return fault.E(fault.Stale, fault.At(s.where()), fault.Got("the end of the job while waiting for "+s.say(w)))
		case ctx.Err() != nil:
			return fault.E(contextKind(ctx), fault.At(s.where()), fault.Got("no end of waiting for "+s.say(w)), fault.Cause(context.Cause(ctx)))
		case late:
			return fault.E(fault.DeadlineExceeded, fault.At(s.where()), fault.Gotf("no end of waiting for %s within %v", s.say(w), w.limit))
		}
		s.waits[id] = w
		s.pause(ctx, w)
	}
	return s.err
}

// pause lets others change the state, until they have, ctx ends, or the limit of a wait has passed. s.mu is held before and after.
func (s *Server) pause(ctx context.Context, w wait) {
	var late <-chan time.Time
	if w.limit > 0 {
		timer := time.NewTimer(time.Until(w.since.Add(w.limit)))
		defer timer.Stop()
		late = timer.C
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	case <-late:
	}
}

func contextKind(ctx context.Context) fault.Kind {
	if ctx.Err() == context.DeadlineExceeded {
		return fault.DeadlineExceeded
	}
	return fault.Canceled
}

// broadcast wakes everyone who waits, and sets the deadline of what the server now waits for itself. s.mu is held.
func (s *Server) broadcast() {
	s.watch()
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
		close(s.failed)
		s.broadcast()
	}
}

// finish ends the server in good order. s.mu is held.
func (s *Server) finish() {
	if s.err == nil && !s.finished {
		s.finished = true
		close(s.done)
		s.broadcast()
	}
}

// name is this server's in waits.
func (s *Server) name() string { return fmt.Sprintf("pserver %d", s.cfg.Index) }

// where names this server in messages.
func (s *Server) where() string { return fmt.Sprintf("%s of job %s", s.name(), s.cfg.Identity.Job) }

// deadline is what the server itself waits for, whether or not a call is blocked in it, and what ends that wait.
type deadline struct {
	reason deadlineReason
	wait   wait
	timer  *time.Timer // nil when it waits for nothing
}

// deadlineReason tells one wait from the next: a deadline counts anew when it has changed.
type deadlineReason struct {
	kind       deadlineKind
	generation uint64
	freezes    int
	round      uint64
}

type deadlineKind int

const (
	waitsForNothing     deadlineKind = iota
	waitsForGeneration               // a coordinator has to begin one
	waitsForPartialSums              // of other servers, in a round that is being applied
	waitsForTrainers                 // to declare the round that others have begun
	waitsForRelease                  // everything is done; a coordinator has to know
)

// reason finds out what the server waits for. A round that nobody has begun may be as far away as it likes, and while no generation is under way
// nothing but the next one has a deadline. s.mu is held.
func (s *Server) reason() deadlineReason {
	r := deadlineReason{}
	switch {
	case s.machine == nil, s.free && s.finished, s.err != nil:
		return r
	case s.finished:
		r.kind = waitsForRelease
		return r
	case s.machine.idle():
		r.kind, r.freezes = waitsForGeneration, s.freezes
	case len(s.partials) > 0:
		r.kind = waitsForPartialSums
	case s.rounds != nil && s.rounds.Begun():
		r.kind = waitsForTrainers
	default:
		return r
	}
	r.generation = s.machine.Generation()
	if s.rounds != nil {
		r.round = s.rounds.Round()
	}
	return r
}

// watch sets the deadline of what the server waits for now, if that is not what it waited for before. s.mu is held.
func (s *Server) watch() {
	reason := s.reason()
	if reason == s.own.reason {
		s.own.wait.ranks, s.own.wait.by = s.absent(reason.kind)
		return
	}
	if s.own.timer != nil {
		s.own.timer.Stop()
	}
	s.own = deadline{reason: reason}
	w := &s.own.wait
	w.since, w.limit = time.Now(), s.cfg.RoundDeadline
	w.ranks, w.by = s.absent(reason.kind)
	switch reason.kind {
	case waitsForNothing:
		return
	case waitsForGeneration:
		w.what, w.limit = "the first generation", s.cfg.StartDeadline
		if reason.generation > 0 {
			w.what = "the generation after " + itoa(reason.generation)
		}
	case waitsForPartialSums:
		w.what = "partial sums of round " + itoa(reason.round)
	case waitsForTrainers:
		w.what = "round " + itoa(reason.round)
	case waitsForRelease:
		w.what, w.limit = "the end of the job", s.cfg.StartDeadline
	}
	var timer *time.Timer // is written before s.mu is free
	timer = time.AfterFunc(w.limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.own.timer != timer: // it was replaced while it fired, perhaps for the same reason
		case reason.kind == waitsForRelease:
			s.letGo()
		default:
			s.fail(s.late(reason.kind, s.own.wait))
		}
	})
	s.own.timer = timer
}

// absent names those that the server waits for. s.mu is held.
func (s *Server) absent(kind deadlineKind) (ranks []int, by []string) {
	switch kind {
	case waitsForGeneration, waitsForRelease:
		by = []string{"coordinator"}
	case waitsForTrainers:
		ranks = s.rounds.Missing()
	case waitsForPartialSums:
		for _, server := range slices.Sorted(maps.Keys(s.partials)) {
			by = append(by, fmt.Sprintf("pserver %d", server))
		}
	}
	return ranks, by
}

// late is the failure of a server that has waited too long. s.mu is held.
func (s *Server) late(kind deadlineKind, w wait) error {
	f := fault.E(fault.LostMember, fault.At(s.where()), fault.Gotf("no end of waiting for %s within %v", s.say(w), w.limit))
	switch kind {
	case waitsForGeneration:
		f.Want, f.Hint = "a coordinator that begins it", "look at the coordinator's log, or raise start_deadline"
	case waitsForPartialSums:
		f.Want, f.Hint = "those of every server", "look at that server's log, or raise round_deadline"
	default:
		f.Want, f.Hint = "every trainer's contribution", "look at that trainer's log, or raise round_deadline"
	}
	return f
}
