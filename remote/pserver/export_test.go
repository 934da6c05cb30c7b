package pserver

import (
	"time"

	"github.com/edl-go/edl/remote/id"
)

// Held is how long rounds have waited until what they change was kept of the last cut.
func (s *Server) Held() time.Duration { return time.Duration(s.cuts.held.Load()) }

// LongestHeld is the longest of these waits.
func (s *Server) LongestHeld() time.Duration { return time.Duration(s.cuts.longest.Load()) }

// NextSteps is nextSteps for tests.
func (u *Updates) NextSteps() (begun, ledger map[id.Rank]id.Round) { return u.nextSteps() }

// HourOf is hourOf for tests.
func HourOf(list []Declaration) int64 { return hourOf(list) }

// Restoring reports whether a state of a checkpoint is about to be taken.
func (s *Server) Restoring() bool {
	s.core.Lock()
	defer s.core.Unlock()
	return s.core.restoring > 0
}

// StandingOfUpdates is standingOfUpdates for tests.
func StandingOfUpdates(u *Updates) Standing { return standingOfUpdates(u) }

// CaughtUpOf is caughtUpOf for tests.
func CaughtUpOf(told, own *Updates) CaughtUp { return caughtUpOf(told, own.steps) }

// TotalsAt are the totals of a place in the open round.
func TotalsAt(r *Rounds, place int) []RankTotals { return r.shared[place].parts }
