package generation

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

func (e Joined) apply(m *Machine, now time.Duration, out *Effects) error {
	member, isMember := m.current.Member(e.Rank)
	known := max(m.waiting[e.Rank].incarnation, member.Incarnation)
	dead, was := m.dead[e.Rank]
	switch {
	case int64(e.Rank) >= int64(m.policy.ranks()):
		return refused(e.Rank, fault.Foreign, "a rank beyond the job", fmt.Sprintf("0 to %d", m.policy.ranks()-1))
	case e.Incarnation < known:
		return refused(e.Rank, fault.Fenced, fmt.Sprintf("the process of revision %d", e.Incarnation),
			fmt.Sprintf("that of revision %d, which took its place", known))
	case m.left[e.Rank]:
		return nil
	case was && e.Incarnation <= dead:
		return refused(e.Rank, fault.Fenced, fmt.Sprintf("the process of revision %d, whose lease has ended", e.Incarnation), "one that lives")
	case isMember && !m.gone[e.Rank] && e.Incarnation == member.Incarnation && m.policy.newer(m.current, member, e.Last) && m.phase >= Resuming:
		m.waiting[e.Rank] = waiter{e.Incarnation, e.Last, e.At} // it has not had its answer
		return nil
	}
	m.waiting[e.Rank] = waiter{e.Incarnation, e.Last, e.At}
	coming, isComing := m.next.Member(e.Rank)
	isComing = isComing && m.phase == Persisting
	if isComing && coming.Incarnation == e.Incarnation {
		return nil
	}
	m.changed(now, isComing || isMember && !m.left[e.Rank] || m.phase == Gathering || m.room() > 0, out)
	return nil
}

// refused is the error of a trainer that may not join.
func refused(rank id.Rank, kind fault.Kind, got, want string) error {
	return fault.E(kind, fault.Atf("trainer %d", rank), fault.Got(got), fault.Want(want))
}

func (e Answered) apply(m *Machine, _ time.Duration, _ *Effects) error {
	delete(m.waiting, e.Rank)
	return nil
}

func (e Lost) apply(m *Machine, now time.Duration, out *Effects) error {
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
	return nil
}

func (e Left) apply(m *Machine, now time.Duration, out *Effects) error {
	m.leave(now, e.Rank, true, out)
	return nil
}

func (e Drained) apply(m *Machine, now time.Duration, out *Effects) error {
	m.leave(now, e.Rank, false, out)
	return nil
}

// leave takes the leave of a trainer. One that drains while others have already trained all data is done, too.
func (m *Machine) leave(now time.Duration, rank id.Rank, done bool, out *Effects) {
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
			m.short = false
		} else {
			m.gone[rank] = true
		}
	}
	if m.ended() {
		m.end(out, Effects{End: true})
		return
	}
	m.changed(now, m.gone[rank] || coming || m.phase == Gathering, out)
}

// gather fixes the members of the next generation when they are enough.
func (m *Machine) gather(now time.Duration, out *Effects) {
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
func (m *Machine) enough(now time.Duration, members []Member) bool {
	n := len(members)
	rejoined := now-m.entered >= m.policy.RejoinDeadline || !slices.ContainsFunc(m.expected(), m.away)
	switch {
	case n == 0:
		return false
	case !m.policy.Sync && m.current.Number > 0: // the others train in any case, and may as well have the tasks of those who are gone
		return true
	case m.policy.fixed():
		return n == m.policy.Min-len(m.left)
	case m.current.Number == 0:
		return n >= m.wanted || n >= m.policy.Min && now-m.began >= m.policy.StartDeadline
	case len(m.left) > 0:
		return rejoined
	}
	return rejoined && n >= m.policy.Min
}

// Answer returns the generation that a trainer which has joined is a member of, when that has begun and is newer than the last one that the trainer
// knows. When the trainer has the answer, send Answered.
func (m *Machine) Answer(rank id.Rank, incarnation id.Incarnation, last id.Generation) (Generation, bool) {
	member, ok := m.current.Member(rank)
	if !ok || member.Incarnation != incarnation || m.phase != Running || !m.policy.newer(m.current, member, last) {
		return Generation{}, false
	}
	return m.current, true
}

// newer reports whether a member of g has to be told of g. In sync mode every generation is one to join, in async only that in which the member came.
func (p Policy) newer(g Generation, member Member, last id.Generation) bool {
	if p.Sync {
		return last < g.Number
	}
	return last < member.Since
}

// Committed is how many rounds are known to have committed. The members of the last generation may know of more.
func (m *Machine) Committed() id.Round { return max(m.current.Round, m.round) }

// Phase is the phase that the machine is in.
func (m *Machine) Phase() Phase { return m.phase }
