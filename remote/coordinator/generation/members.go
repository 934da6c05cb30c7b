package generation

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
)

// joined takes the word of a trainer that waits for a generation.
func (m *Machine) joined(now time.Time, e Joined, out *Effects) {
	member, isMember := m.current.Member(e.Rank)
	known := max(m.waiting[e.Rank].incarnation, member.Incarnation)
	dead, was := m.dead[e.Rank]
	switch {
	case int(e.Rank) >= max(m.policy.Max, m.policy.Min):
		out.Refuse = refused(e.Rank, fault.Foreign, "a rank beyond the job", fmt.Sprintf("0 to %d", max(m.policy.Max, m.policy.Min)-1))
		return
	case e.Incarnation < known:
		out.Refuse = refused(e.Rank, fault.Fenced, fmt.Sprintf("the process of revision %d", e.Incarnation),
			fmt.Sprintf("that of revision %d, which took its place", known))
		return
	case m.left[e.Rank]:
		return
	case was && e.Incarnation <= dead:
		out.Refuse = refused(e.Rank, fault.Fenced, fmt.Sprintf("the process of revision %d, whose lease has ended", e.Incarnation), "one that lives")
		return
	case isMember && !m.gone[e.Rank] && e.Incarnation == member.Incarnation && m.policy.newer(m.current, member, e.Last) && m.phase >= Resuming:
		m.waiting[e.Rank] = waiter{e.Incarnation, e.Last} // for the answer, which it has not had
		return
	}
	m.waiting[e.Rank] = waiter{e.Incarnation, e.Last}
	coming, isComing := m.next.Member(e.Rank)
	isComing = isComing && m.phase == Persisting
	if isComing && coming.Incarnation == e.Incarnation {
		return
	}
	m.changed(now, isComing || isMember && !m.left[e.Rank] || m.phase == Gathering || m.room() > 0, out)
}

// lost takes the word that a process is gone.
func (m *Machine) lost(now time.Time, e Lost, out *Effects) {
	m.dead[e.Rank] = max(m.dead[e.Rank], e.Incarnation)
	if m.waiting[e.Rank].incarnation == e.Incarnation {
		delete(m.waiting, e.Rank)
	}
	member, ok := m.current.Member(e.Rank)
	was := ok && member.Incarnation == e.Incarnation && !m.left[e.Rank] && !m.gone[e.Rank]
	coming, ok := m.next.Member(e.Rank)
	will := m.phase == Persisting && ok && coming.Incarnation == e.Incarnation
	if was || will {
		m.errors[e.Rank] = e.Reason
	}
	if was {
		m.gone[e.Rank] = true
	}
	m.changed(now, was || will || m.phase == Gathering, out)
}

// leave takes the leave of a trainer. One that drains while others have already trained all data is done, too.
func (m *Machine) leave(now time.Time, rank uint32, done bool, out *Effects) {
	member, is := m.current.Member(rank)
	if !done { // what it has sent before may still arrive
		m.dead[rank] = max(m.dead[rank], member.Incarnation, m.waiting[rank].incarnation)
	}
	delete(m.waiting, rank)
	_, coming := m.next.Member(rank)
	coming = coming && m.phase == Persisting
	if is {
		if done || len(m.left) > 0 {
			m.left[rank] = true
			m.short = time.Time{}
		} else {
			m.gone[rank] = true
		}
	}
	switch {
	case m.ended():
		m.end(out)
	default:
		m.changed(now, m.gone[rank] || coming || m.phase == Gathering, out)
	}
}

// ended reports whether every member has left in order.
func (m *Machine) ended() bool {
	for _, member := range m.current.Members {
		if !m.left[member.Rank] {
			return false
		}
	}
	return len(m.current.Members) > 0
}

func (m *Machine) end(out *Effects) {
	m.phase = Ended
	*out = Effects{End: true}
}

// Left reports whether a trainer has left with nothing more to train. Another process of its rank has nothing to do either.
func (m *Machine) Left(rank uint32) bool { return m.left[rank] }

// lacksOld reports whether the process of a member is gone.
func (m *Machine) lacksOld() bool {
	return slices.ContainsFunc(m.current.Members, func(old Member) bool {
		w, waits := m.waiting[old.Rank]
		return !m.left[old.Rank] && (m.gone[old.Rank] || waits && w.incarnation != old.Incarnation)
	})
}

// expected lists the members that live: in sync mode they have to join the next generation.
func (m *Machine) expected() (ranks []uint32) {
	for _, member := range m.current.Members {
		if !m.left[member.Rank] && !m.gone[member.Rank] {
			ranks = append(ranks, member.Rank)
		}
	}
	return ranks
}
