package generation

import (
	"fmt"
	"slices"
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

	frozen     []*rpc.FreezeResponse // by server, nil before its answer
	resumed    []bool
	round      uint64 // decided
	commit     []*rpc.Declared
	next       Generation
	progressed bool // a server that is lost now has parameters that nobody else has
}

// New returns a machine; its first event must be Start.
func New(p Policy, s State) *Machine {
	m := &Machine{policy: p, wanted: p.Min, current: s.Generation, settled: s.Settled, left: map[uint32]bool{}, waiting: map[uint32]waiter{}, gone: map[uint32]bool{}, frozen: make([]*rpc.FreezeResponse, p.Servers),
		errors: map[uint32]string{}, progressed: s.Round > 0 || !p.Sync && s.Settled > 0}
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
			m.progressed = m.progressed || e.Answer.Round > 0
			m.decide(now, out)
		}
	case Persisted:
		if e.Change == m.change && m.phase == Persisting {
			m.current, m.gone = m.next, m.goneOf(m.next)
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
	for _, member := range m.current.Members { // one that has completed anywhere has done all its work, the saving of the model too, and was about to leave
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

// Answer returns the generation that a trainer which has joined is a member of, when that has begun and is newer than the last that the trainer knows.
// The trainer does not wait any more then.
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

// Now is the phase that the machine is in.
func (m *Machine) Now() Phase { return m.phase }

// refused is the error of a trainer that may not join.
func refused(rank uint32, kind fault.Kind, got, want string) error {
	return &fault.Fault{Kind: kind, Where: fmt.Sprintf("trainer %d", rank), Got: got, Want: want}
}

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
