package generation

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/proto/rpc"
)

// begin begins a change. The answers of one that was under way are void.
func (m *Machine) begin(now time.Time, out *Effects) {
	m.change++
	m.again, m.refreeze, m.began = false, false, now
	m.frozen = make([]*rpc.FreezeResponse, m.policy.Servers)
	m.round, m.commit = m.current.Round, nil
	if !m.policy.Sync && !m.lacksOld() {
		m.enter(now, Gathering)
		m.gather(now, out)
		return
	}
	m.enter(now, Freezing)
	out.Freeze, out.Superseded = m.change, m.policy.Sync
}

// changed begins a change where there is reason to, or notes that there is while the members of the next generation are already fixed.
func (m *Machine) changed(now time.Time, reason bool, out *Effects) {
	switch {
	case !reason:
	case m.phase == Running:
		m.begin(now, out)
	case m.phase > Gathering:
		m.again = true
	default:
		m.gather(now, out)
	}
}

// decide goes on when all servers are frozen.
func (m *Machine) decide(now time.Time, out *Effects) {
	if len(m.absentServers()) > 0 {
		return
	}
	if m.policy.Sync {
		var err error
		if m.round, m.commit, err = Decide(m.current, m.frozen); err != nil {
			m.fail(err, out)
			return
		}
	}
	// One that has completed anywhere has done all its work, the saving of the model too, and was about to leave.
	for _, member := range m.current.Members {
		if slices.ContainsFunc(m.frozen, func(a *rpc.FreezeResponse) bool { return slices.Contains(a.Completed, member.Rank) }) {
			m.left[member.Rank] = true
			delete(m.waiting, member.Rank)
		}
	}
	if m.ended() {
		m.end(out)
		return
	}
	m.enter(now, Gathering)
	m.gather(now, out)
}

// run lets a generation train, unless the next is needed already.
func (m *Machine) run(now time.Time, out *Effects) {
	m.settled = m.current.Number
	m.progressed = m.progressed || !m.policy.Sync
	if m.again || m.room() > 0 {
		m.begin(now, out)
		return
	}
	for _, member := range m.current.Members {
		delete(m.errors, member.Rank)
	}
	m.enter(now, Running)
	out.Begun = true
	if m.lacking() <= 0 {
		m.short = time.Time{}
	} else if m.short.IsZero() {
		m.short = now
	}
}

// serverLost waits for a server that takes the place of one that had nothing to lose.
func (m *Machine) serverLost(now time.Time, server int, out *Effects) {
	if m.progressed {
		m.fail(parametersGone(server, "in generation "+fmt.Sprint(m.current.Number)), out)
		return
	}
	if m.phase == Persisting { // its number may be durable already, and must not name another generation
		m.refreeze = true
		return
	}
	m.begin(now, out)
}

// absentServers lists the servers that a change waits for.
func (m *Machine) absentServers() (absent []int) {
	for server := range m.policy.Servers {
		if m.phase == Freezing && m.frozen[server] == nil || m.phase == Resuming && !m.resumed[server] {
			absent = append(absent, server)
		}
	}
	return absent
}
