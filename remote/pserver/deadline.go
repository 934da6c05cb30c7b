package pserver

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
)

// startDeadline fails the server with what late returns when d has passed, unless stopDeadline is called before; late is called with s.mu held.
// There is one deadline at a time: that of the start, or that of the round. s.mu is held.
func (s *Server) startDeadline(d time.Duration, late func() error) {
	s.stopDeadline()
	var own *time.Timer
	own = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.deadline == own { // else it was stopped or replaced while it fired
			s.deadline = nil
			s.fail(late())
		}
	})
	s.deadline = own
}

// stopDeadline ends the deadline. s.mu is held.
func (s *Server) stopDeadline() {
	if s.deadline != nil {
		s.deadline.Stop()
		s.deadline = nil
	}
}

// armRound starts the deadline of a sync round that has begun: that every other member declares, too. A round that nobody has begun may be as far
// away as it likes. s.mu is held.
func (s *Server) armRound() {
	if s.deadline == nil && s.started && !s.finished && s.rounds.Begun() {
		s.startDeadline(s.cfg.RoundDeadline, func() error {
			return s.missingFault("round "+itoa(s.rounds.Round()), s.rounds.Missing(), s.cfg.RoundDeadline, "round_deadline")
		})
	}
}

// armStart starts the deadline of the first word of every trainer. s.mu is held.
func (s *Server) armStart() {
	s.startDeadline(s.cfg.StartDeadline, func() error {
		var absent []int
		for rank, t := range s.seen {
			if t.IsZero() {
				absent = append(absent, rank)
			}
		}
		return s.missingFault("the start of the job", absent, s.cfg.StartDeadline, "start_deadline")
	})
}

// hear notes a message of a trainer; with the first of the last one the start is over. s.mu is held.
func (s *Server) hear(rank uint32) {
	if int(rank) >= len(s.seen) {
		return
	}
	s.seen[rank] = time.Now()
	if s.started {
		return
	}
	for _, t := range s.seen {
		if t.IsZero() {
			return
		}
	}
	s.started = true
	s.stopDeadline()
	if s.rounds != nil {
		s.armRound()
	}
}

// missingFault names the trainers that a round, or the start of the job, waits for. s.mu is held.
func (s *Server) missingFault(what string, ranks []int, after time.Duration, setting string) error {
	return &fault.Fault{Kind: fault.LostMember, Where: s.where(), Got: fmt.Sprintf("%s still waits for %s after %v", what, s.trainers(ranks), after.Round(time.Millisecond)),
		Want: "every trainer's contribution", Hint: "look at that trainer's log, or raise " + setting}
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
