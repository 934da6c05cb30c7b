package pserver

import (
	"time"

	"github.com/edl-go/edl/proto/rpc"
)

// A server that is told to end, and has no standby in step, lives on until a checkpoint of a round from then on is made: what it has is lost with it. Who runs
// the server asks the coordinator for that checkpoint (package role). In sync mode the server applies no round behind the one that is cut, so that nothing is
// trained that the job repeats when it goes back to the checkpoint:
//
//	told to end -> goes on -> Cut of a round from now on: frozen -> holds the next round -> the checkpoint is made: it ends
//	                  ^                                                |
//	                  +------- another round is cut, or limit ---------+
//
// leaving is that decision. The zero leaving is that of a server that was not told to end.
type leaving struct {
	since time.Time     // when the server was told; zero: it was not
	limit time.Duration // of the time for which one round is held
}

// heldRounds is the part of the round deadline for which a server that is to end holds a round: others wait for it, and have their own deadlines.
const heldRounds = 3

// holds returns for how much longer no round is applied, at now, where the last cut has frozen its version at began; zero: none has.
func (l leaving) holds(now, began time.Time) time.Duration {
	if l.since.IsZero() || began.Before(l.since) { // an earlier cut is not the one that was asked for
		return 0
	}
	return max(0, l.limit-now.Sub(began))
}

// Leaves tells a server that it is to end as soon as a checkpoint has what it has. alone reports whether it has anything that is lost with it; else it may end
// at once: nothing was trained, the server is itself a standby, or its standby takes its place.
func Leaves(s *Server) (alone bool) {
	c := s.core
	c.Lock()
	defer c.Unlock()
	if c.machine == nil || c.Ended() || c.machine.Generation() == 0 || c.standby.follows() || c.mirror.status() == rpc.StatusResponse_IN_STEP {
		return false
	}
	c.leaving = leaving{since: time.Now(), limit: c.cfg.RoundDeadline / heldRounds}
	c.toCut.wake()
	return true
}

// holds returns for how much longer a sync server applies no round, because it is to end and its part of the last checkpoint has been frozen. The goroutine that
// applies rounds asks.
func (cs *cuts) holds(c *core) time.Duration {
	c.Lock()
	defer c.Unlock()
	if k := cs.current; c.rounds != nil && k != nil && k.begun {
		return c.leaving.holds(time.Now(), k.at)
	}
	return 0
}
