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

// Answer returns the generation that a trainer which has joined is a member of, when that has begun and is newer than the last that the trainer
// knows. The trainer does not wait any more then.
func (m *Machine) Answer(rank uint32, incarnation, last uint64) (Generation, bool) {
	member, ok := m.current.Member(rank)
	if !ok || member.Incarnation != incarnation || m.phase != Running || !m.policy.newer(m.current, member, last) {
		return Generation{}, false
	}
	delete(m.waiting, rank)
	return m.current, true
}

// newer reports whether a member of g has to be told of g. In sync mode every generation is one to join, in async only that in which the member came.
func (p Policy) newer(g Generation, member Member, last uint64) bool {
	if p.Sync {
		return last < g.Number
	}
	return last < member.Since
}

// State is what has to be durable now, but for a generation that is being made so.
func (m *Machine) State() State {
	s := State{Generation: m.current, Settled: m.settled}
	for rank := range uint32(max(m.policy.Max, m.policy.Min)) {
		if m.left[rank] {
			s.Left = append(s.Left, rank)
		}
	}
	return s
}

// Generation is the last durable generation.
func (m *Machine) Generation() Generation { return m.current }

// Committed is how many rounds are known to have committed. In the last generation there may be more, of which its members know.
func (m *Machine) Committed() uint64 { return max(m.current.Round, m.round) }

// Now is the phase that the machine is in.
func (m *Machine) Now() Phase { return m.phase }

// Incarnations returns the processes of a rank that are members or wait to be.
func (m *Machine) Incarnations(rank uint32) (known []uint64) {
	if w, ok := m.waiting[rank]; ok {
		known = append(known, w.incarnation)
	}
	for _, g := range []Generation{m.current, m.next} {
		if member, ok := g.Member(rank); ok && !slices.Contains(known, member.Incarnation) {
			known = append(known, member.Incarnation)
		}
	}
	return known
}

// Others returns the members beside one that have not left.
func (m *Machine) Others(rank uint32) (others []uint32) {
	for _, member := range m.current.Members {
		if member.Rank != rank && !m.left[member.Rank] {
			others = append(others, member.Rank)
		}
	}
	return others
}

// Saves reports whether a trainer that was elected to save the model has done so, or may be trusted to: it is a member.
func (m *Machine) Saves(rank uint32) bool {
	_, ok := m.current.Member(rank)
	return ok || m.left[rank]
}
