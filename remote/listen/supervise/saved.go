package supervise

import (
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// A Machine outlives its process: what Save returns is written before the effects of a step are carried out, and Restore makes the same machine of it. Whoever
// restores it does again what is due (Again), because it is not known how many of the last effects were carried out. So each of them can be repeated: a start has a
// number, and a process of that number is started once.

// maxSaved bounds the roles of a machine that is restored.
const maxSaved = 1 << 17

// Save returns all that a machine knows at now.
func Save(m *Machine, now time.Duration) *state.Supervision {
	s := &state.Supervision{Pservers: int32(m.policy.PServers), Wanted: int32(m.wanted), Attempt: int32(m.attempt), Again: int32(m.again), Clearing: m.clearing,
		BeginAt: int64(m.beginAt), Pause: int64(m.pause), Began: int64(m.began), Cause: wire.FailureOf(m.cause), Ended: m.ended, Steps: m.steps,
		Back: int32(m.number), Why: wire.FailureOf(m.why), More: m.more, Asked: int32(m.asked), Scaling: int32(m.scaling.to), Moves: int32(m.scaling.number), Now: int64(now), Suspended: m.suspended, Forgets: m.forgets}
	for _, r := range m.roles {
		saved := &state.SupervisedRole{Role: r.Role, Index: int32(r.Index), State: int32(r.State), Starts: int32(r.Starts), Since: int64(r.Since), Due: int64(r.Due),
			Lost: r.Lost, Last: wire.FailureOf(r.Last), Restarts: int32(r.restarts), Pause: int64(r.pause), Killed: r.killed, Renewed: r.renewed, Steps: r.steps,
			As: r.process.Member.Role, Before: int32(r.process.Before)}
		if r.Role == job.Role_PSERVER {
			saved.Moved = int32(m.scaling.starts[r.Index])
		}
		s.Roles = append(s.Roles, saved)
	}
	for index, t := range m.under {
		s.Under = append(s.Under, &state.TakeOver{Index: int32(index), Number: int32(t.number), Ran: int64(t.ran), Cause: wire.FailureOf(t.cause)})
	}
	return s
}

// Restore returns the machine that Save has described, with the policy of its job. It refuses what no machine saves.
func Restore(p Policy, s *state.Supervision) (*Machine, error) {
	if s == nil || len(s.Roles) > maxSaved || s.Pservers < 0 || s.Wanted < 0 {
		return nil, fault.E(fault.Corrupt, fault.At("supervision"), fault.Gotf("%d roles, %d pservers", len(s.GetRoles()), s.GetPservers()), fault.Want("those of a job"))
	}
	m := New(p, int(s.Wanted))
	m.policy.PServers = int(s.Pservers)
	m.attempt, m.again, m.clearing, m.suspended = int(s.Attempt), int(s.Again), s.Clearing, s.Clearing && s.Suspended
	m.forgets = s.Clearing && s.Forgets
	m.beginAt, m.pause, m.began = time.Duration(s.BeginAt), time.Duration(s.Pause), time.Duration(s.Began)
	m.cause, m.ended, m.steps = wire.FaultOf(s.Cause), s.Ended, s.Steps
	m.back = back{number: int(s.Back), why: wire.FaultOf(s.Why), more: s.More}
	m.scaling = scaling{to: int(s.Scaling), number: int(s.Moves), starts: map[int]int{}}
	for _, saved := range s.Roles {
		member := cluster.Member{Role: saved.Role, Index: int(saved.Index)}
		if saved.Index < 0 || saved.State < int32(Down) || saved.State > int32(Absent) || m.find(member) != nil {
			return nil, fault.E(fault.Corrupt, fault.At("supervision"), fault.Gotf("%v in state %d", member, saved.State), fault.Want("each role once, in one of its states"))
		}
		m.roles = append(m.roles, &Role{Member: member, State: State(saved.State), Starts: int(saved.Starts), Since: time.Duration(saved.Since), Due: time.Duration(saved.Due),
			Lost: saved.Lost, Last: wire.FaultOf(saved.Last), restarts: int(saved.Restarts), pause: time.Duration(saved.Pause), killed: saved.Killed, renewed: saved.Renewed,
			steps: saved.Steps, process: Start{cluster.Member{Role: saved.As, Index: int(saved.Index)}, int(saved.Before)}})
		if saved.Moved > 0 {
			m.scaling.starts[int(saved.Index)] = int(saved.Moved)
		}
	}
	for _, t := range s.Under {
		m.asked = max(m.asked, int(t.Number))
		m.under[int(t.Index)] = takeover{int(t.Number), time.Duration(t.Ran), wire.FaultOf(t.Cause)}
	}
	m.asked = max(m.asked, int(s.Asked))
	return m, nil
}

// Again returns what a machine that was restored has decided and is waiting for: requests without an answer, and roles that are to end. Starts are not among them:
// Processes has them.
func Again(m *Machine) (out Effects) {
	if m.ended {
		return out
	}
	for _, r := range m.roles {
		switch {
		case r.live() && r.killed:
			out.Kill = append(out.Kill, r.Member)
		case r.State == Draining:
			out.Drain = append(out.Drain, r.Member)
		}
	}
	out.Forget = m.forgets
	for index, t := range m.under {
		out.TakeOver = append(out.TakeOver, TakeOver{index, t.number})
	}
	if m.why != nil && !m.clearing {
		out.GoBack = m.number
	}
	return out
}

// Processes returns the roles that run, each with the start of its process. That of a pserver may have been the start of its standby.
func Processes(m *Machine) map[cluster.Member]Start {
	processes := map[cluster.Member]Start{}
	for _, r := range m.roles {
		if r.live() {
			processes[r.Member] = r.process
		}
	}
	return processes
}

// Changing returns the number of the move of the state that is under way; 0: none is.
func Changing(m *Machine) int {
	if m.scaling.to == 0 {
		return 0
	}
	return m.scaling.number
}
