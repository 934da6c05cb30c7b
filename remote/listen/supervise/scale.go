package supervise

import (
	"errors"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// scaling is the change of a job to another number of pservers:
//
//	Scaled 4    of 2   Start pservers 2 and 3. Move 1: the caller lets the state move to all four
//	Moved 1            the job has 4 pservers: Placed
//	Moved 1, an error  the job has 2 pservers: Stays. Pservers 2 and 3 end
//	Scaled 2    of 4   Move 2
//	Moved 2            Placed. Pservers 2 and 3 end
//
// The standbys of a job that has moved start again: each has slices of the placement before.
//
// An async job has no moment at which its state could move. It makes a checkpoint, and all its roles start again from that with the other number (Scaled.Anew):
// no failure, so no restart counts.
//
// Meanwhile a new pserver has nothing to lose: it starts again as any role does. If another one ends, the job starts over, with the pservers that it had: it is
// not known which of them have its state. The job also starts over when nobody knows what has become of the move.
type scaling struct {
	to     int         // pservers; 0: the job is not being scaled
	number int         // how often Move was told
	starts map[int]int // of the new pservers, by index, when the move began
}

// Busy tells why a machine would refuse a number of pservers now, although it may take it later; nil: it would not, or never takes one again.
func Busy(m *Machine, servers int) error {
	busy := func(got string) error {
		return fault.E(fault.Unavailable, fault.Got(got), fault.Want("one that trains"), fault.Hint("try again later"))
	}
	switch {
	case m.ended, m.dataEnded():
		return nil
	case m.clearing:
		return busy("a job that does not run now")
	case m.why != nil:
		return busy("a job that goes back to a checkpoint")
	case len(m.under) > 0:
		return busy("a job whose pserver is lost")
	case m.scaling.to > 0:
		return busy(fmt.Sprintf("a job that is changing to %d pservers", m.scaling.to))
	}
	for i := m.policy.PServers; i < servers; i++ {
		for _, member := range []cluster.Member{server(i), standbyOf(i)} {
			if r := m.find(member); r != nil && r.live() {
				return busy(fmt.Sprintf("a %v that is ending", member))
			}
		}
	}
	return nil
}

// apply begins to change the number of pservers, and returns why it cannot.
func (e Scaled) apply(m *Machine, now time.Duration, out *Effects) error {
	switch {
	case m.ended:
		return fault.E(fault.Unavailable, fault.Got("a job that has ended"), fault.Want("one that trains"))
	case m.dataEnded():
		return fault.E(fault.Unavailable, fault.Got("a job with a trainer that has no more to train"), fault.Want("one that trains"))
	}
	if err := Busy(m, e.Servers); err != nil {
		return err
	}
	if e.Anew {
		m.policy.PServers = e.Servers
		for i := range e.Servers {
			m.role(server(i))
		}
		endAttempt(m, now, fault.E(fault.Canceled, fault.At(resizing), fault.Gotf("a change to %d pservers", e.Servers)), out)
		m.pause = 0
		return nil
	}
	m.scaling = scaling{to: e.Servers, number: m.scaling.number + 1, starts: map[int]int{}}
	for i := m.policy.PServers; i < e.Servers; i++ {
		r := m.role(server(i))
		r.enter(Down, now)
		r.restarts, r.pause = 0, 0
		m.scaling.starts[i] = r.Starts + 1
	}
	m.tick(now, out)
	out.Move = m.scaling.number
	return nil
}

func (e Moved) apply(m *Machine, now time.Duration, out *Effects) error {
	if e.Number != m.scaling.number || m.scaling.to == 0 || m.ended {
		return nil
	}
	if e.Unknown {
		m.startOver(now, e.Err, out)
		return nil
	}
	to, starts := m.scaling.to, m.scaling.starts
	m.scaling.to = 0
	if e.Err != nil {
		out.Stays = e.Err
		endExtra(m, now, out)
		return nil
	}
	m.policy.PServers, out.Placed = to, true
	endExtra(m, now, out)
	renewStandbys(m, now, out)
	for i, n := range starts {
		if r := m.role(server(i)); r.Starts != n || r.State != Running { // it may have had the state
			m.startOver(now, fault.E(fault.LostMember, fault.At(r.String()), fault.Got("the end of a pserver that the job was changing to"), fault.Cause(r.Last)), out)
			return nil
		}
	}
	return nil
}

// endExtra ends the pservers that the job does not have any more.
func endExtra(m *Machine, now time.Duration, out *Effects) {
	for _, r := range m.roles {
		switch {
		case !extra(m, r):
		case r.State == Down:
			r.enter(Drained, now)
		case r.State == Running:
			r.enter(Draining, now)
			r.Due = now + m.policy.Release
			out.Drain = append(out.Drain, r.Member)
		}
	}
}

// renewStandbys lets every standby of a job start again, as many as it has pservers now.
func renewStandbys(m *Machine, now time.Duration, out *Effects) {
	if !m.policy.Standbys {
		return
	}
	for i := range m.policy.PServers {
		if r := m.role(standbyOf(i)); r.State == Drained {
			r.enter(Down, now)
		}
	}
	for _, r := range m.roles {
		if r.Role == job.Role_STANDBY && r.State == Running && !r.killed {
			r.killed, r.renewed = true, true
			out.Kill = append(out.Kill, r.Member)
		}
	}
	m.tick(now, out)
}

// Resizes reports whether a job begins its next attempt because it has got another number of pservers: nothing is lost.
func Resizes(cause error) bool {
	var f *fault.Fault
	return errors.As(cause, &f) && f.Kind == fault.Canceled && f.Where == resizing
}

const resizing = "the number of pservers"

// Surplus reports whether a role is a pserver that the job does not have now, or the standby of one: that it ends is no failure.
func Surplus(m *Machine, of cluster.Member) bool {
	r := m.find(of)
	return r != nil && extra(m, r)
}

// extra reports whether a role is a pserver that the job does not have, or does not have yet, or the standby of one.
func extra(m *Machine, r *Role) bool {
	return (r.Role == job.Role_PSERVER || r.Role == job.Role_STANDBY) && r.Index >= m.policy.PServers
}

// extraExited is Exited of such a pserver. It starts again only while the job may change to it, and never ends the job.
func extraExited(m *Machine, now time.Duration, r *Role, err error) {
	if err == nil || m.scaling.to == 0 || r.Role == job.Role_STANDBY || r.State == Draining || !mendable(r.Member, err) || r.restarts >= m.policy.MaxRestarts {
		r.enter(Drained, now)
		return
	}
	r.restarts++
	r.pause = pauseAfter(r.pause)
	r.enter(Down, now)
	r.Due = now + r.pause
}

// giveUp ends a change of the number of pservers because the job ends or starts over.
func (s *scaling) giveUp(why error, out *Effects) {
	if s.to > 0 {
		s.to = 0
		out.Stays = why
	}
}

func server(index int) cluster.Member { return cluster.Member{Role: job.Role_PSERVER, Index: index} }
