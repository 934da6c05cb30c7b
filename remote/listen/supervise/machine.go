package supervise

import (
	"slices"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// A Machine supervises the roles of one job. Its times are those of one clock of its driver, which never goes back.
type Machine struct {
	policy    Policy
	wanted    int // trainers
	roles     []*Role
	histories int           // that have ended
	clearing  bool          // a history has ended, and the next has not begun
	beginAt   time.Duration // of the next history
	pause     time.Duration // before the last history
	began     time.Duration // of this history
	cause     error         // of the end of the last history
	ended     bool
	steps     uint64 // of the job, as far as they were told
}

// New returns the machine of a job that wants a number of trainers at first.
func New(p Policy, trainers int) *Machine { return &Machine{policy: p, wanted: trainers} }

// Begin starts every role. It is called once.
func (m *Machine) Begin(now time.Duration) []Effect {
	m.began = now
	m.role(cluster.Member{Role: job.Role_COORDINATOR})
	for i := range m.policy.PServers {
		m.role(cluster.Member{Role: job.Role_PSERVER, Index: i})
	}
	m.wantTrainers(now)
	return m.Tick(now)
}

// find returns the record of a member, nil when there is none.
func (m *Machine) find(member cluster.Member) *Role {
	i := slices.IndexFunc(m.roles, func(r *Role) bool { return r.Member == member })
	if i < 0 {
		return nil
	}
	return m.roles[i]
}

// role returns the record of a member, making one that is down, and will be started.
func (m *Machine) role(member cluster.Member) *Role {
	if r := m.find(member); r != nil {
		return r
	}
	r := &Role{Member: member}
	m.roles = append(m.roles, r)
	return r
}

// Wanted changes how many trainers are wanted. Missing ones are started, and the highest ranks end.
func (m *Machine) Wanted(now time.Duration, trainers int) []Effect {
	m.wanted = trainers
	if m.ended || m.clearing {
		return nil
	}
	return append(m.wantTrainers(now), m.Tick(now)...)
}

// wantTrainers compares the trainers that there are with those that are wanted. When one has seen the end of the data, no other is started.
func (m *Machine) wantTrainers(now time.Duration) (effects []Effect) {
	for rank := range m.wanted {
		r := m.role(cluster.Member{Role: job.Role_TRAINER, Index: rank})
		if r.State == Drained && !m.dataEnded() {
			r.enter(Down, now)
		}
	}
	for _, r := range m.roles {
		if r.Role != job.Role_TRAINER || r.Index < m.wanted {
			continue
		}
		switch r.State {
		case Down:
			r.enter(Drained, now)
		case Running:
			r.enter(Draining, now)
			r.Due = now + m.policy.DrainTime
			effects = append(effects, Effect{Do: Drain, Member: r.Member})
		}
	}
	return effects
}

// Progress says that the job has made a step.
func (m *Machine) Progress() { m.steps++ }

// LeaseLost says that the lease of a role that runs is gone.
func (m *Machine) LeaseLost(now time.Duration, member cluster.Member) {
	if r := m.find(member); r != nil && r.live() && !r.Lost && !m.ended {
		r.Lost, r.Due = true, now+LostGrace
	}
}

// Tick does what has come due.
func (m *Machine) Tick(now time.Duration) (effects []Effect) {
	if m.ended {
		return nil
	}
	if m.clearing {
		if m.anyLive() || now < m.beginAt {
			return nil
		}
		effects = m.beginAnew(now)
	}
	for _, r := range m.roles {
		switch {
		case r.State == Down && r.Due <= now:
			effects = append(effects, Effect{Do: Start, Member: r.Member, Start: r.Starts})
			r.enter(Running, now)
			r.steps = m.steps
			r.Starts++
		case r.live() && r.Due != 0 && r.Due <= now && !r.killed:
			r.killed = true
			effects = append(effects, Effect{Do: Kill, Member: r.Member})
		}
	}
	return effects
}

// Next returns when Tick has something to do; false when only an event can change anything.
func (m *Machine) Next() (at time.Duration, ok bool) {
	if m.ended {
		return 0, false
	}
	if m.clearing {
		return m.beginAt, !m.anyLive()
	}
	for _, r := range m.roles {
		if r.Due != 0 && !r.killed && (r.State == Down || r.live()) && (!ok || r.Due < at) {
			at, ok = r.Due, true
		}
	}
	return at, ok
}
