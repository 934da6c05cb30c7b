// Package generation decides who trains a job together: the membership of a job, generation after generation. It is pure: time is an argument,
// messages are events, and what is to be done comes back as effects that the coordinator carries out.
//
// A change of the members runs through phases. The servers are frozen, so that nothing of the old generation counts any more and each tells how far
// it is; Decide says at which round all of them go on; the members of the next generation are gathered; the generation is made durable; the
// servers resume with it; what those who are gone had under way is settled; then the trainers that wait are answered. What happens while a change is
// under way is folded into it as long as its members are not fixed, and into the next one afterwards.
//
// In async mode nobody stops or has to join again, because members do not share rounds. The servers are asked only when a member is gone: it may have
// completed its work before. So may a member of a sync job; and where all have, the job has ended well, although nobody has said so.
package generation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Phase is how far a change is.
type Phase int

// Phases of a change, in order; Running is between two.
const (
	Freezing Phase = iota
	Gathering
	Persisting
	Resuming
	Settling
	Running
	Ended
)

// waiter is a trainer that waits for a generation.
type waiter struct {
	incarnation uint64
	last        uint64 // generation that it was a member of
}

// Machine is the membership of one job. It is not safe for concurrent use.
type Machine struct {
	policy  Policy
	wanted  int
	current Generation // the last durable one
	settled uint64     // the last one whose members were answered
	left    map[uint32]bool

	phase      Phase
	change     uint64    // number of the last change
	began      time.Time // the change
	entered    time.Time // the phase
	rejoinTold bool      // the deadline for joining again has passed
	refreeze   bool      // a server was replaced while next was made durable
	short      time.Time // since when an async job has too few trainers; zero: it has not
	again      bool      // something has changed since the members of next were fixed
	waiting    map[uint32]waiter
	gone       map[uint32]bool // members of current that are lost or drained
	errors     map[uint32]string
	dead       map[uint32]uint64 // by rank, the last process of which it is known that it is gone, though a message of it may still come

	frozen     []*rpc.FreezeResponse // by server, nil before its answer
	resumed    []bool
	round      uint64 // decided
	commit     []*rpc.Declared
	next       Generation
	progressed bool // a server that is lost now has parameters that nobody else has
}

// New returns a machine; its first event must be Start.
func New(p Policy, s State) *Machine {
	m := &Machine{policy: p, wanted: p.Min, current: s.Generation, settled: s.Settled, left: map[uint32]bool{}, waiting: map[uint32]waiter{},
		gone: map[uint32]bool{}, frozen: make([]*rpc.FreezeResponse, p.Servers),
		errors: map[uint32]string{}, dead: map[uint32]uint64{}, progressed: s.Round > uint64(p.Start) || !p.Sync && s.Settled > 0}
	if p.Sync {
		m.current.Round = max(m.current.Round, uint64(p.Start))
	}
	for _, rank := range s.Left {
		m.left[rank] = true
	}
	return m
}

// Step takes one event.
func (m *Machine) Step(now time.Time, e Event) (out Effects) {
	if m.phase == Ended {
		return Effects{}
	}
	switch e := e.(type) {
	case Start:
		if m.ended() {
			m.end(&out)
		} else {
			m.begin(now, &out)
		}
	case Tick:
		m.tick(now, &out)
	case Wanted:
		m.wanted = min(max(e.Trainers, m.policy.Min), max(m.policy.Max, m.policy.Min))
		m.changed(now, m.room() > 0 || m.phase == Gathering, &out)
	case Joined:
		m.joined(now, e, &out)
	case Lost:
		m.lost(now, e, &out)
	case Left:
		m.leave(now, e.Rank, true, &out)
	case Drained:
		m.leave(now, e.Rank, false, &out)
	case Progress:
		m.progressed = true
	case Change:
		m.changed(now, true, &out)
	case ServerLost:
		m.serverLost(now, e.Server, &out)
	default:
		m.answered(now, e, &out)
	}
	return out
}

// answered takes the answer to an effect.
func (m *Machine) answered(now time.Time, e Event, out *Effects) {
	switch e := e.(type) {
	case Frozen:
		if e.Change == m.change && m.phase == Freezing {
			m.frozen[e.Server] = e.Answer
			m.progressed = m.progressed || e.Answer.Round > uint64(m.policy.Start)
			m.decide(now, out)
		}
	case Persisted:
		if e.Change == m.change && m.phase == Persisting {
			m.current, m.gone = m.next, m.goneOf(m.next)
			if m.ended() { // its members have left meanwhile
				m.end(out)
				return
			}
			if m.refreeze {
				m.begin(now, out)
				return
			}
			m.enter(now, Resuming)
			m.resumed = make([]bool, m.policy.Servers)
			out.Resume = &Next{m.change, m.current}
		}
	case Resumed:
		if e.Change == m.change && m.phase == Resuming {
			m.resumed[e.Server] = true
			if len(m.absentServers()) == 0 {
				m.enter(now, Settling)
				out.Settle = &Next{m.change, m.current}
			}
		}
	case Settled:
		if e.Change == m.change && m.phase == Settling {
			m.run(now, out)
		}
	case Failed:
		if e.Change == m.change {
			m.fail(e.Err, out)
		}
	}
}

func (m *Machine) enter(now time.Time, p Phase) { m.phase, m.entered = p, now }

func (m *Machine) fail(err error, out *Effects) {
	m.phase = Ended
	*out = Effects{Fail: err}
}

// refused is the error of a trainer that may not join.
func refused(rank uint32, kind fault.Kind, got, want string) error {
	return fault.E(kind, fault.Atf("trainer %d", rank), fault.Got(got), fault.Want(want))
}

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
		if m.round, m.commit, err = Decide(m.policy.Start, m.current, m.frozen); err != nil {
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

// A Wait is what a job waits for.
type Wait struct {
	What      string
	By        []string // who is waited for
	Since     time.Time
	Until     time.Time // when the job fails
	LastError string    // of one of By
}

// Wait returns what the job waits for now, if anything.
func (m *Machine) Wait() (Wait, bool) {
	w := Wait{What: fmt.Sprintf("generation %d", m.current.Number+1), Since: m.began, Until: m.began.Add(m.policy.StartDeadline)}
	switch m.phase {
	case Freezing:
		w.What, w.By = "the state of the servers, for "+w.What, servers(m.absentServers())
	case Gathering:
		w.By, w.LastError = m.missing()
	case Persisting:
		w.What, w.By, w.Since = "a record of "+w.What, []string{"etcd"}, m.entered
	case Resuming:
		w.What, w.By, w.Since = fmt.Sprintf("generation %d", m.current.Number), servers(m.absentServers()), m.entered
	case Settling:
		w.What, w.By, w.Since = "the ledger", servers([]int{0}), m.entered
	case Running:
		w.What, w.Since = "more trainers", m.short
		w.By, w.LastError = m.missing()
	}
	w.Until = w.Since.Add(m.policy.StartDeadline)
	return w, m.phase != Ended && (m.phase != Running || !m.short.IsZero())
}

// Paused reports whether the job does not go on for want of trainers, rather than because a change takes its time.
func (m *Machine) Paused() bool {
	return m.phase == Gathering && m.current.Number > 0 && len(m.expected()) < max(1, m.policy.Min-len(m.left))
}

// Progressed reports whether a server that is lost now takes parameters along that nobody else has.
func (m *Machine) Progressed() bool { return m.progressed }

// Ending reports whether a trainer has left because there is nothing more to train.
func (m *Machine) Ending() bool { return len(m.left) > 0 }

// Deadline is when the next Tick is due; false: at no time.
func (m *Machine) Deadline() (time.Time, bool) {
	w, waits := m.Wait()
	if !waits {
		return time.Time{}, false
	}
	rejoin := m.entered.Add(m.policy.RejoinDeadline)
	if m.phase == Gathering && m.current.Number > 0 && rejoin.Before(w.Until) && !m.rejoinTold {
		return rejoin, true
	}
	return w.Until, true
}

// tick ends waits that have taken too long.
func (m *Machine) tick(now time.Time, out *Effects) {
	m.gather(now, out)
	m.rejoinTold = m.phase == Gathering && now.Sub(m.entered) >= m.policy.RejoinDeadline
	w, waits := m.Wait()
	if !waits || now.Before(w.Until) {
		return
	}
	got := fmt.Sprintf("no word of %s within %v", strings.Join(w.By, ", "), m.policy.StartDeadline)
	if w.LastError != "" {
		got += "; " + w.LastError
	}
	m.fail(fault.E(fault.DeadlineExceeded, fault.At("coordinator"), fault.Got(got), fault.Want(w.What),
		fault.Hint("look at their logs, or raise start_deadline")), out)
}

// missing names the trainers that are waited for, and the last error of one of them.
func (m *Machine) missing() (names []string, lastError string) {
	var ranks []uint32
	for rank := range uint32(max(m.policy.Max, m.policy.Min)) {
		_, member := m.current.Member(rank)
		lives := member && !m.gone[rank] && (m.phase == Running || !m.policy.Sync)
		asked := member || int(rank) < m.wanted && len(m.left) == 0
		if asked && m.away(rank) && !m.left[rank] && !lives {
			ranks = append(ranks, rank)
		}
	}
	for _, rank := range ranks {
		names = append(names, fmt.Sprintf("trainer %d", rank))
		if reason := m.errors[rank]; reason != "" && lastError == "" {
			lastError = fmt.Sprintf("trainer %d: %s", rank, reason)
		}
	}
	return names, lastError
}

func servers(indexes []int) []string {
	names := make([]string, len(indexes))
	for i, server := range indexes {
		names[i] = fmt.Sprintf("pserver %d", server)
	}
	return names
}
