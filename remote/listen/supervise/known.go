package supervise

import (
	"slices"
	"time"

	"github.com/edl-go/edl/remote/cluster"
)

// Roles returns what is known of every role: coordinator, pservers, trainers.
func (m *Machine) Roles() []Role {
	out := make([]Role, len(m.roles))
	for i, r := range m.roles {
		out[i] = *r
	}
	slices.SortStableFunc(out, func(a, b Role) int {
		if a.Role != b.Role {
			return int(a.Role) - int(b.Role)
		}
		return a.Index - b.Index
	})
	return out
}

// Trainers returns how many trainers are wanted.
func (m *Machine) Trainers() int { return m.wanted }

// Restarting tells of a history that has ended: when the next one begins at the earliest, and why. It returns nil when there is none.
func (m *Machine) Restarting() (at time.Duration, cause error) {
	if !m.clearing {
		return 0, nil
	}
	return m.beginAt, m.cause
}

// Cause returns why the last history ended; nil in the first.
func (m *Machine) Cause() error { return m.cause }

// StartsOf returns how often a role was started, 0 for one that the job does not have.
func (m *Machine) StartsOf(member cluster.Member) int {
	if r := m.find(member); r != nil {
		return r.Starts
	}
	return 0
}

// Histories returns how often the history of the job has begun again.
func (m *Machine) Histories() int { return m.histories }
