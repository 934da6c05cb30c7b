// Package generation decides who trains a job together: the membership of a job, generation after generation.
//
//	machine.go   phases and what leads from one to the next; waits and deadlines
//	event.go     policy, generations, events, effects
//	members.go   who joins, leaves and is lost; when the members of the next generation are enough
//	roster.go    who is a member, who waits to be one, who is gone; queries
//	decide.go    at which round the servers go on
//
// A Machine is pure: time is an argument, messages are events, and what is to be done comes back as effects that the coordinator carries out. A
// generation is a set of trainers that share rounds. When a member is lost, or a trainer is to be added, the machine makes a change: it ends the
// generation and begins the next one.
//
// # Phases of a change
//
//	          reason for a change                           Began (a coordinator starts)
//	Running ----------------------> Freezing <------------------------------------------
//	   ^                               |  effect Freeze: every server stops its open round
//	   |                               v  Frozen from every server: Decide
//	   |                            Gathering <--- Joined, Lost, Left, Drained, Wanted change who is a candidate
//	   |                               |
//	   |                               v  enough candidates: the members are fixed
//	   |                            Persisting     effect Persist: etcd, under the lock
//	   |                               |
//	   |                               v  Persisted
//	   |                            Resuming       effect Resume: every server begins the generation
//	   |                               |
//	   |                               v  Resumed from every server
//	   |                            Settling       effect Settle: tasks of those who are gone go back
//	   |                               |
//	   +-------------------------------+  Settled: effect Begun, trainers are answered
//
//	Any phase -> Ended: every member has left (End), or the job cannot go on (Fail).
//
// What holds in each phase:
//
//   - Running: the generation is durable, every server has resumed with it, and every member has been or will be answered. Rounds commit.
//   - Freezing: nothing of the old generation counts any more at a server that has answered. Each answer says how far the server is.
//   - Gathering: the round at which all servers go on is decided and does not change. No round commits. Sync members have to join again.
//   - Persisting: the members of the next generation are fixed. The number may be durable already, so it never names another set of members.
//   - Resuming, Settling: the generation is durable, so another coordinator would begin after it. No trainer trains in it yet.
//
// An event that changes the members is folded into the change until the members are fixed; afterwards another change follows. A coordinator that starts
// always makes a change, because it does not know what the one before has under way.
//
// In async mode members do not share rounds: nobody stops or joins again. A change skips Freezing unless a member is gone, who may have completed its
// work before. A member of a sync job may have, too. When all members have completed, the job has ended well, although none has taken leave.
//
// # Example
//
// Trainers 0, 1 and 2 train generation 4 with servers 0 and 1; round 41 is under way. A trainer sends its gradients to all servers, and only then declares
// its contribution at each. Trainer 1 is killed when it has declared at server 0 and not yet at server 1. Server 0 then has all three declarations, and
// applies the round; server 1 waits.
//
//	etcd -> machine        Lost{1}               the lease of trainer 1 has ended
//	machine -> servers     Freeze 4              and trainers 0 and 2, which wait for round 41, are told to join again (Superseded)
//	server 0 -> machine    Frozen{round 42, applied by 0, 1, 2}
//	server 1 -> machine    Frozen{round 41, declared by 0, 2}
//	                       Decide: some server has applied round 41, so every member had sent its gradients everywhere: server 1 can apply it, too.
//	                       Generation 5 begins at round 42, and its Commit says what round 41 is made of: 0, 1, 2.
//	trainers -> machine    Joined{0}, Joined{2}, and Joined{1} from the process that the supervisor has started
//	machine -> etcd        Persist generation 5: members 0, 1, 2, round 42
//	machine -> servers     Resume: server 1 applies round 41 with the contribution of the process that was killed
//	machine -> queue       Settle: nothing, the data follows from the round
//	machine -> trainers    Begun: each receives the parameters of round 42, and trains batch 42
//
// Had trainer 1 declared nowhere, both servers would have answered "round 41, declared by 0, 2". No server has applied the round, and none will: it is
// dropped, generation 5 begins at round 41, and its members train the same records again. In both cases each record counts once.
//
// The example is a script: testdata/example.txt.
package generation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
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

// Machine is the membership of one job. It is not for concurrent use.
type Machine struct {
	roster
	phase      Phase
	change     uint64        // number of the last change
	began      time.Duration // the change
	entered    time.Duration // the phase
	rejoinTold bool          // the deadline for joining again has passed
	refreeze   bool          // a server was replaced while next was made durable
	again      bool          // something has changed since the members of next were fixed: another change follows
	short      bool          // an async job has too few trainers
	shortSince time.Duration

	frozen     []*rpc.FreezeResponse // by server, nil before its answer
	resumed    []bool
	round      id.Round // decided
	commit     []*rpc.Declared
	progressed bool // a server that is lost now has parameters that nobody else has
}

// New returns a machine; its first event must be Began.
func New(p Policy, s State) *Machine {
	m := &Machine{frozen: make([]*rpc.FreezeResponse, p.Servers), progressed: s.Round > p.Start || !p.Sync && s.Settled > 0 || p.History > 0,
		roster: roster{policy: p, wanted: p.Min, current: s.Generation, settled: s.Settled, left: map[id.Rank]bool{}, waiting: map[id.Rank]waiter{},
			gone: map[id.Rank]bool{}, errors: map[id.Rank]string{}, dead: map[id.Rank]id.Incarnation{}}}
	if p.Sync {
		m.current.Round = max(m.current.Round, p.Start)
	}
	for _, rank := range s.Left {
		m.left[rank] = true
	}
	return m
}

// Step lets an event happen at now, a time since the epoch of the caller. An error refuses the event: nothing has changed. After the end of the job
// events change nothing.
func (m *Machine) Step(now time.Duration, e Event) (out Effects, err error) {
	if m.phase == Ended {
		return Effects{}, nil
	}
	if err := e.apply(m, now, &out); err != nil {
		return Effects{}, err
	}
	return out, nil
}

func (Began) apply(m *Machine, now time.Duration, out *Effects) error {
	if m.ended() {
		m.end(out, Effects{End: true})
	} else {
		m.begin(now, out)
	}
	return nil
}

func (e Wanted) apply(m *Machine, now time.Duration, out *Effects) error {
	m.wanted = min(max(e.Trainers, m.policy.Min), m.policy.ranks())
	m.changed(now, m.room() > 0 || m.phase == Gathering, out)
	return nil
}

func (Progressed) apply(m *Machine, _ time.Duration, _ *Effects) error {
	m.progressed = true
	return nil
}

func (DataFailed) apply(m *Machine, now time.Duration, out *Effects) error {
	m.changed(now, true, out)
	return nil
}

func (Moving) apply(m *Machine, now time.Duration, out *Effects) error {
	m.changed(now, true, out)
	return nil
}

func (e Frozen) apply(m *Machine, now time.Duration, out *Effects) error {
	if e.Change == m.change && m.phase == Freezing {
		m.frozen[e.Server] = e.Answer
		m.progressed = m.progressed || id.Round(e.Answer.Round) > m.policy.Start
		m.decide(now, out)
	}
	return nil
}

func (e Persisted) apply(m *Machine, now time.Duration, out *Effects) error {
	if e.Change != m.change || m.phase != Persisting {
		return nil
	}
	m.current, m.gone = m.next, m.goneOf(m.next)
	switch {
	case m.ended(): // its members have left meanwhile
		m.end(out, Effects{End: true})
	case m.refreeze:
		m.begin(now, out)
	default:
		m.enter(now, Resuming)
		m.resumed = make([]bool, m.policy.Servers)
		out.Resume = &Next{m.change, m.current}
	}
	return nil
}

func (e Resumed) apply(m *Machine, now time.Duration, out *Effects) error {
	if e.Change == m.change && m.phase == Resuming {
		m.resumed[e.Server] = true
		if len(m.absentServers()) == 0 {
			m.enter(now, Settling)
			out.Settle = &Next{m.change, m.current}
		}
	}
	return nil
}

func (e Settled) apply(m *Machine, now time.Duration, out *Effects) error {
	if e.Change == m.change && m.phase == Settling {
		m.run(now, out)
	}
	return nil
}

func (e Failed) apply(m *Machine, _ time.Duration, out *Effects) error {
	if e.Change == m.change {
		m.end(out, Effects{Fail: e.Err})
	}
	return nil
}

func (m *Machine) enter(now time.Duration, p Phase) { m.phase, m.entered = p, now }

// end ends the job, well or not, with no other effect.
func (m *Machine) end(out *Effects, last Effects) { m.phase, *out = Ended, last }

// begin begins a change. The answers of one that was under way are void.
func (m *Machine) begin(now time.Duration, out *Effects) {
	m.change++
	m.again, m.refreeze, m.began = false, false, now
	m.frozen = make([]*rpc.FreezeResponse, m.policy.Servers)
	m.round, m.commit = m.current.Round, nil
	// A coordinator that begins asks the servers which history they have: the one before may have been about to go back.
	asks := m.change == 1 && m.policy.GoesBack && m.current.Number > 0
	if !m.policy.Sync && !m.lacksOld() && !asks {
		m.enter(now, Gathering)
		m.gather(now, out)
		return
	}
	m.enter(now, Freezing)
	out.Freeze, out.Superseded = m.change, m.policy.Sync
}

// changed begins a change where there is reason to, or notes that there is while the members of the next generation are already fixed.
func (m *Machine) changed(now time.Duration, reason bool, out *Effects) {
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
func (m *Machine) decide(now time.Duration, out *Effects) {
	if len(m.absentServers()) > 0 {
		return
	}
	if m.policy.Sync {
		var err error
		if m.round, m.commit, err = Decide(m.policy.Start, m.policy.History, m.current, m.frozen); err != nil {
			m.end(out, Effects{Fail: err})
			return
		}
	} else if err := sameHistory(m.policy.History, m.frozen, "and has not the state of the job"); err != nil {
		m.end(out, Effects{Fail: err})
		return
	}
	// One that has completed anywhere has done all its work, the saving of the model too, and was about to leave.
	for _, member := range m.current.Members {
		if slices.ContainsFunc(m.frozen, func(a *rpc.FreezeResponse) bool { return slices.Contains(a.Completed, uint32(member.Rank)) }) {
			m.left[member.Rank] = true
			delete(m.waiting, member.Rank)
		}
	}
	if m.ended() {
		m.end(out, Effects{End: true})
		return
	}
	m.enter(now, Gathering)
	m.gather(now, out)
}

// run lets a generation train, unless the next is needed already.
func (m *Machine) run(now time.Duration, out *Effects) {
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
	if lacks := m.lacking() > 0; lacks != m.short {
		m.short, m.shortSince = lacks, now
	}
}

// A server that had nothing to lose is replaced, and so is one that has a standby: the change begins anew and waits for the one that takes its place. What
// the lost server has answered is void: of what was sent to it, its standby has only the rounds that are applied.
func (e ServerLost) apply(m *Machine, now time.Duration, out *Effects) error {
	switch {
	case m.policy.Standby && m.phase == Running:
	case m.progressed && !m.policy.Standby:
		m.end(out, Effects{Fail: parametersGone(e.Server, "in generation "+fmt.Sprint(m.current.Number))})
	case m.phase == Persisting: // the number of next may be durable already, and must not name another generation
		m.refreeze = true
	default:
		m.begin(now, out)
	}
	return nil
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

// A Wait is what a job waits for. Times are those of Step.
type Wait struct {
	What      string
	By        []string // who is waited for
	Since     time.Duration
	Until     time.Duration // when the job fails
	LastError string        // of one of By
}

// Wait returns what the job waits for now, if anything.
func (m *Machine) Wait() (Wait, bool) {
	if m.phase == Ended || m.phase == Running && !m.short {
		return Wait{}, false
	}
	w := Wait{What: fmt.Sprintf("generation %d", m.current.Number+1), Since: m.began}
	switch m.phase {
	case Freezing:
		w.What, w.By = "the state of the servers, for "+w.What, servers(m.absentServers())
	case Gathering:
		w.By, w.LastError = m.missing(m.phase == Running)
	case Persisting:
		w.What, w.By, w.Since = "a record of "+w.What, []string{"etcd"}, m.entered
	case Resuming:
		w.What, w.By, w.Since = fmt.Sprintf("generation %d", m.current.Number), servers(m.absentServers()), m.entered
	case Settling:
		w.What, w.By, w.Since = "the ledger", servers([]int{0}), m.entered
	case Running:
		w.What, w.Since = "more trainers", m.shortSince
		w.By, w.LastError = m.missing(m.phase == Running)
	}
	w.Until = w.Since + m.policy.StartDeadline
	return w, true
}

// Paused reports whether the job does not go on because trainers are missing, rather than because a change takes its time.
func (m *Machine) Paused() bool {
	return m.phase == Gathering && m.current.Number > 0 && len(m.expected()) < max(1, m.policy.Min-len(m.left))
}

// Known returns the highest number that a generation may have, as far as anybody can have heard of it.
func (m *Machine) Known() id.Generation {
	if m.phase == Persisting {
		return m.next.Number
	}
	return m.current.Number
}

// Progressed reports whether a server that is lost now takes parameters along that nobody else has.
func (m *Machine) Progressed() bool { return m.progressed }

// Next returns when the next Tick is due. ok is false when none is.
func (m *Machine) Next() (at time.Duration, ok bool) {
	w, waits := m.Wait()
	if !waits {
		return 0, false
	}
	rejoin := m.entered + m.policy.RejoinDeadline
	if m.phase == Gathering && m.current.Number > 0 && rejoin < w.Until && !m.rejoinTold {
		return rejoin, true
	}
	return w.Until, true
}

// Tick ends waits that have taken too long.
func (Tick) apply(m *Machine, now time.Duration, out *Effects) error {
	m.gather(now, out)
	m.rejoinTold = m.phase == Gathering && now-m.entered >= m.policy.RejoinDeadline
	w, waits := m.Wait()
	if !waits || now < w.Until {
		return nil
	}
	got := fmt.Sprintf("no word of %s within %v", strings.Join(w.By, ", "), m.policy.StartDeadline)
	if w.LastError != "" {
		got += "; " + w.LastError
	}
	m.end(out, Effects{Fail: fault.E(fault.DeadlineExceeded, fault.At("coordinator"), fault.Got(got), fault.Want(w.What),
		fault.Hint("look at their logs, or raise start_deadline"))})
	return nil
}

func servers(indexes []int) []string {
	names := make([]string, len(indexes))
	for i, server := range indexes {
		names[i] = fmt.Sprintf("pserver %d", server)
	}
	return names
}
