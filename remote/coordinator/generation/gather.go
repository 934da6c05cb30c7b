package generation

import (
	"slices"
	"time"
)

// gather fixes the members of the next generation when they are enough.
func (m *Machine) gather(now time.Time, out *Effects) {
	if m.phase != Gathering {
		return
	}
	members := m.candidates()
	if !m.enough(now, members) {
		return
	}
	m.next = Generation{Number: m.current.Number + 1, Members: members, Round: m.round, Commit: m.commit}
	m.enter(now, Persisting)
	out.Persist = &Next{m.change, m.next}
}

// candidates are the members of a generation that would begin now, in rank order: the old ones that are there, and as many others as are wanted.
func (m *Machine) candidates() (members []Member) {
	number := m.current.Number + 1
	for _, old := range m.current.Members {
		w, waits := m.waiting[old.Rank]
		switch {
		case m.left[old.Rank]:
		case waits && (w.incarnation != old.Incarnation || !m.policy.Sync && w.last >= old.Since):
			members = append(members, Member{old.Rank, number, w.incarnation})
		case waits || !m.policy.Sync && !m.gone[old.Rank]:
			members = append(members, old)
		}
	}
	for _, rank := range m.newcomers(m.current, len(members)) {
		members = append(members, Member{rank, number, m.waiting[rank].incarnation})
	}
	slices.SortFunc(members, func(a, b Member) int { return int(a.Rank) - int(b.Rank) })
	return members
}

// newcomers lists those who wait, are no members of g, and are wanted beside so many others, in rank order. When trainers have left because all data
// is trained nobody else is wanted, unless none of the others lives.
func (m *Machine) newcomers(g Generation, others int) (ranks []uint32) {
	if len(m.left) > 0 && (others > 0 || len(m.expected()) > 0) {
		return nil
	}
	for rank := range m.waiting {
		if _, ok := g.Member(rank); !ok && !m.left[rank] {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks[:min(len(ranks), max(0, m.wanted-others))]
}

// room is how many of those who wait would be new members, were a change to begin now.
func (m *Machine) room() int {
	if m.phase == Persisting {
		return len(m.newcomers(m.next, len(m.next.Members)))
	}
	others := len(m.expected())
	for rank := range m.gone {
		if _, back := m.waiting[rank]; back {
			others++
		}
	}
	return len(m.newcomers(m.current, others))
}

// enough reports whether a generation of these members may begin.
func (m *Machine) enough(now time.Time, members []Member) bool {
	n := len(members)
	rejoined := now.Sub(m.entered) >= m.policy.RejoinDeadline || !slices.ContainsFunc(m.expected(), m.away)
	switch {
	case n == 0:
		return false
	case !m.policy.Sync && m.current.Number > 0: // the others train in any case, and may as well have the tasks of those who are gone
		return true
	case m.policy.fixed():
		return n == m.policy.Min-len(m.left)
	case m.current.Number == 0:
		return n >= m.wanted || n >= m.policy.Min && now.Sub(m.began) >= m.policy.StartDeadline
	case len(m.left) > 0:
		return rejoined
	}
	return rejoined && n >= m.policy.Min
}

// away reports whether a rank does not wait for the next generation.
func (m *Machine) away(rank uint32) bool {
	_, waits := m.waiting[rank]
	return !waits
}

// lacking is how many trainers a running job has too few. Only an async one runs then; when all data is trained none is missed.
func (m *Machine) lacking() int {
	if len(m.left) > 0 {
		return 0
	}
	return m.policy.Min - len(m.expected())
}

// goneOf lists the members of a generation that were lost while it was made durable.
func (m *Machine) goneOf(g Generation) map[uint32]bool {
	gone := map[uint32]bool{}
	for _, member := range g.Members {
		if m.policy.Sync || member.Since == g.Number {
			gone[member.Rank] = m.waiting[member.Rank].incarnation != member.Incarnation
		} else {
			gone[member.Rank] = m.gone[member.Rank]
		}
		if !gone[member.Rank] {
			delete(gone, member.Rank)
		}
	}
	return gone
}
