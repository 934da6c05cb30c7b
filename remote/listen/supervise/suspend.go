package supervise

import (
	"time"

	"github.com/edl-go/edl/fault"
)

// A job is suspended between two attempts: the next one begins where its last checkpoint was made, as after a loss of parameters, but only when the job is resumed, and
// no restart counts.
//
//	Suspended      Kill all roles. Left when the last one has ended
//	Resumed 2      Forget, and when that is answered Start all roles, with two trainers: the next attempt

type (
	// Suspended ends the attempt of a job that has just made a checkpoint. It is refused as MaySuspend says.
	Suspended struct{}
	// Resumed begins the next attempt of a job that is suspended, with so many trainers, when no role is left.
	Resumed struct{ Trainers int }
)

// MaySuspend tells why a job cannot be suspended now; nil: it can.
func MaySuspend(m *Machine) error {
	switch {
	case m.ended:
		return fault.E(fault.Unavailable, fault.Got("a job that has ended"), fault.Want("one that trains"))
	case m.dataEnded():
		return fault.E(fault.Unavailable, fault.Got("a job with a trainer that has no more to train"), fault.Want("one that trains"))
	case m.policy.OneAttempt:
		return fault.E(fault.InvalidArgument, fault.Got("a job that is fed"), fault.Want("one that reads its own data"))
	}
	return Busy(m, 0)
}

func (Suspended) apply(m *Machine, now time.Duration, out *Effects) error {
	if m.suspended {
		return nil
	}
	if err := MaySuspend(m); err != nil {
		return err
	}
	endAttempt(m, now, fault.New(fault.Canceled, "it was suspended"), out)
	m.pause, m.suspended = 0, true
	m.tick(now, out)
	return nil
}

func (e Resumed) apply(m *Machine, now time.Duration, out *Effects) error {
	if !m.suspended || m.ended {
		return nil
	}
	m.suspended, m.wanted, m.beginAt = false, e.Trainers, now
	m.tick(now, out)
	return nil
}

// IsSuspended reports whether a job waits until it is resumed; left, whether no role of it is left.
func IsSuspended(m *Machine) (suspended, left bool) {
	return m.suspended && !m.ended, !anyLive(m.roles)
}
