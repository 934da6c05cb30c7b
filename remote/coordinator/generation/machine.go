package generation

import (
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
		errors: map[uint32]string{}, dead: map[uint32]uint64{}, progressed: s.Round > 0 || !p.Sync && s.Settled > 0}
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
