package supervise

import (
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// A TakeOver asks the standby of a pserver that is lost to take its place.
type TakeOver struct {
	Index  int // of the pserver
	Number int // of such requests
}

// takeovers are the standbys that are asked to take the place of their pserver.
//
//	the pserver ends ---> absent, TakeOver ---> TookOver: it runs again, in the process of the standby, and the standby starts again
//	                                       ---> the standby ends, or cannot: the pserver is lost as if it had no standby
//
// A standby that is not in step with its pserver refuses. One that takes over gives up its own key. Until the answer is known, the loss of its
// lease does not end its process. Afterwards it does not count for the pserver.
type takeovers struct {
	asked int // requests so far
	under map[int]takeover
}

// A takeover is one request that was not answered.
type takeover struct {
	number int
	ran    time.Duration // how long the pserver ran
	cause  error         // how it ended
}

// standbyOf returns the standby of a pserver.
func standbyOf(index int) cluster.Member { return cluster.Member{Role: job.Role_STANDBY, Index: index} }

// beginTakeover asks the standby of a pserver that is lost, if one runs and the pserver may start again.
func beginTakeover(m *Machine, now time.Duration, r *Role, cause error, out *Effects) bool {
	s := m.find(standbyOf(r.Index))
	if s == nil || !s.live() || !departed(m, cause) && r.restarts >= m.policy.MaxRestarts && now-r.Since < GoodRun {
		return false
	}
	m.asked++
	m.under[r.Index] = takeover{m.asked, now - r.Since, cause}
	r.enter(Absent, now)
	out.TakeOver = append(out.TakeOver, TakeOver{r.Index, m.asked})
	return true
}

func (e TookOver) apply(m *Machine, now time.Duration, out *Effects) error {
	t, ok := m.under[e.Index]
	if !ok || t.number != e.Number || m.ended || m.clearing {
		return nil
	}
	if e.Err != nil {
		standbyEnded(m, now, e.Index, out)
		m.endIfFinished(out)
		return nil
	}
	delete(m.under, e.Index)
	r, s := m.find(cluster.Member{Role: job.Role_PSERVER, Index: e.Index}), m.find(standbyOf(e.Index))
	if t.ran >= GoodRun {
		r.restarts = 0
	}
	if !departed(m, t.cause) {
		r.restarts++
	}
	r.Starts++
	r.steps = m.steps
	r.enter(s.State, now)
	r.killed, r.process = s.killed, s.process
	s.enter(Down, now)
	s.Due, s.Last = now+FirstPause, nil
	out.Replaced = append(out.Replaced, e.Index)
	return nil
}

// standbyEnded is the loss of a pserver whose standby has not taken its place, if it was asked to.
func standbyEnded(m *Machine, now time.Duration, index int, out *Effects) {
	t, ok := m.under[index]
	if !ok || m.ended || m.clearing {
		return
	}
	delete(m.under, index)
	startAgain(m, now, m.find(cluster.Member{Role: job.Role_PSERVER, Index: index}), t.ran, t.cause, true, out)
}

// TakesOver reports whether the standby of a pserver that is lost is asked to take its place.
func (t *takeovers) TakesOver(index int) bool {
	_, under := t.under[index]
	return under
}
