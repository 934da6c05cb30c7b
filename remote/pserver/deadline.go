package pserver

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
)

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
