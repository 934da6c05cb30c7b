package pserver

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

// Updates is the machine of an async job, where each contribution is an update of its own. Members do not depend on each other: a new generation
// changes nothing for those that stay.
type Updates struct {
	generations
	past
	hold
	pace    pace
	members map[id.Rank]*progress // with those that are gone
	steps   id.Round              // of the pushes in the ledger, and those before the job; on the server that keeps it
}

// progress is how far one trainer is, as this server sees it.
type progress struct {
	since     id.Generation // in which its process joined
	gone      bool          // it is no member any more
	next      id.Round      // the first step that no contribution was let in of
	started   bool          // a contribution was received
	step      id.Round      // of the latest contribution
	received  map[string]bool
	pending   int      // contributions that were received and are not yet applied
	earlier   int      // pending contributions of earlier processes of the rank
	committed id.Round // the first step that no barrier has declared
	complete  bool
}

// unapplied is how many contributions of the rank wait to be applied.
func (m *progress) unapplied() int { return m.pending + m.earlier }

// done reports whether nothing follows from the rank: it will send nothing more, and all that it sent is applied.
func (m *progress) done() bool { return (m.gone || m.complete) && m.unapplied() == 0 }

// NewUpdates starts without a generation, in a job whose ranks are less than ranks. variables are those that a contribution may hold.
func NewUpdates(ranks int, variables []string) *Updates {
	return &Updates{generations: newGenerations(ranks, variables), members: map[id.Rank]*progress{}}
}

// Step takes one event.
func (u *Updates) Step(_ time.Duration, e Event) (Effects, error) {
	switch e := e.(type) {
	case Applied:
		return u.applied(e), nil
	case Frozen:
		if err := u.checkHistory(); err != nil && !e.Restores {
			return Effects{}, err
		}
		return Effects{}, u.freeze(e) // members go on: they do not wait for each other
	case Resumed:
		if err := u.checkHistory(); err != nil {
			return Effects{}, err
		}
		return u.resume(e)
	case Restored:
		return restoreUpdates(u, e)
	case Held:
		return Effects{}, u.beginHold(e)
	case Bounded:
		u.below, u.ledger = e.Below, e.Ledger
		return Effects{Cut: u.reached()}, nil
	case LetGo:
		u.hold = hold{}
		return Effects{}, nil
	case Followed, CaughtUp, Updated, Entered, TookOver:
		return followUpdates(u, e)
	}
	from := senderOf(e)
	if err := u.checkRank(from.Rank); err != nil {
		return Effects{}, err
	}
	if _, ok := e.(ReadAny); ok {
		return Effects{}, nil
	}
	m, err := u.member(from)
	if m == nil {
		return Effects{Hold: err == nil}, err
	}
	switch e := e.(type) {
	case Read:
		return holdUnless(m.pending == 0), nil
	case ReadFinal:
		return holdUnless(m.pending == 0 && u.othersDone(e.Rank)), nil
	case Completed:
		u.pace.leave(e.Rank)
		return u.complete(m), nil
	}
	if m.complete {
		return Effects{}, fault.E(fault.Stale, fault.Gotf("step %d of trainer %d, which has completed", from.Round, from.Rank), fault.Want("nothing more"))
	}
	switch e := e.(type) {
	case Offered:
		return u.contribution(m, from, e.Variable, false)
	case Received:
		return u.contribution(m, from, e.Variable, true)
	case Declared:
		return u.declare(m, e)
	case Paced:
		return u.pace.step(e, m.since)
	}
	panic("pserver: an unknown type of event") // all types are in this package
}

// member returns the member that has sent a message. It returns nil without an error when the message has to wait: for the Resumed that it has
// overtaken, or for the contributions of an earlier process of its rank.
func (u *Updates) member(from Sender) (*progress, error) {
	m := u.members[from.Rank]
	var want string
	kind := fault.Stale
	switch {
	case u.over(from.Generation):
		kind, want = fault.Superseded, fmt.Sprintf("a member of a generation after %d: the job has gone back to a checkpoint", u.back)
	case from.Generation > u.begun:
		return nil, nil
	case m == nil || m.gone:
		kind, want = fault.Superseded, fmt.Sprintf("a member of generation %d", u.begun)
	case from.Generation < m.since:
		want = fmt.Sprintf("one of the process that joined in generation %d", m.since)
	case from.Generation > m.since:
		kind, want = fault.Foreign, fmt.Sprintf("generation %d", m.since)
	case m.earlier > 0:
		return nil, nil
	default:
		return m, nil
	}
	return nil, fault.E(kind, fault.Gotf("a message of trainer %d, which joined in generation %d", from.Rank, from.Generation), fault.Want(want))
}

func (u *Updates) contribution(m *progress, from Sender, variable string, received bool) (Effects, error) {
	if err := u.checkVariable(variable); err != nil {
		return Effects{}, err
	}
	switch {
	case m.started && from.Round < m.step:
		return Effects{}, fault.E(fault.Stale, fault.Gotf("step %d of trainer %d", from.Round, from.Rank), fault.Wantf("step %d or later", m.step))
	case m.started && from.Round == m.step && m.received[variable]:
		return Effects{Ignore: true}, nil
	case u.holds(m, from):
		return Effects{Hold: true}, nil
	}
	m.next = max(m.next, from.Round+1)
	if !received {
		return Effects{}, nil
	}
	begins := m.begin(from.Round)
	m.received[variable] = true
	m.pending++
	return Effects{LearningRate: begins}, nil
}

// begin notes that the trainer is at a step, and reports whether it was not before.
func (m *progress) begin(step id.Round) bool {
	if m.started && step == m.step {
		return false
	}
	clear(m.received)
	m.started, m.step = true, step
	return true
}

// declare enters a step in the ledger. Its barrier is the last message of a step.
func (u *Updates) declare(m *progress, e Declared) (Effects, error) {
	switch {
	case e.Round+1 == m.committed:
		return Effects{Ignore: true}, nil
	case e.Round < m.committed || m.started && e.Round < m.step:
		return Effects{}, fault.E(fault.Stale, fault.Gotf("the end of step %d of trainer %d", e.Round, e.Rank),
			fault.Wantf("step %d or later", max(m.committed, m.step)))
	}
	received := 0
	if m.started && e.Round == m.step {
		received = len(m.received)
	}
	if err := u.checkDeclared(e, received); err != nil {
		return Effects{}, err
	}
	if e.Declaration.Steps > maxSteps {
		return Effects{}, fault.E(fault.InvalidArgument, fault.Gotf("a push of %d steps of trainer %d", e.Declaration.Steps, e.Rank), fault.Wantf("at most %d", maxSteps))
	}
	m.committed = e.Round + 1
	u.steps += e.Declaration.steps()
	u.pace.pushed(e.Rank)
	e.Declaration.Rank = e.Rank
	return Effects{Commit: []Declaration{e.Declaration}, Cut: u.reached()}, nil
}

func (u *Updates) complete(m *progress) Effects {
	if m.complete {
		return Effects{Ignore: true}
	}
	m.complete = true
	return Effects{Finished: u.finished()}
}

// applied counts one contribution of a rank, the oldest first.
func (u *Updates) applied(e Applied) Effects {
	if m := u.members[e.Rank]; m.earlier > 0 {
		m.earlier--
	} else {
		m.pending--
	}
	return Effects{Finished: u.finished(), Cut: u.reached()}
}

// resume takes over the list of members. A rank with another process begins at its first step, after all that it sent before has been applied.
func (u *Updates) resume(e Resumed) (Effects, error) {
	again, err := u.checkResume(e)
	if err != nil || again {
		return Effects{Ignore: again}, err
	}
	for _, m := range u.members {
		m.gone = true
	}
	for _, member := range e.Members {
		m := u.members[member.Rank]
		if m == nil || m.since != member.Since {
			earlier := 0
			if m != nil {
				earlier = m.unapplied()
			}
			m = &progress{since: member.Since, earlier: earlier, received: map[string]bool{}}
			u.members[member.Rank] = m
		}
		m.gone = false
	}
	for rank, m := range u.members {
		if c := u.pace.clocks[rank]; c != nil && (m.gone || m.since != c.since) {
			u.pace.leave(rank)
		}
	}
	u.begun = e.Generation
	u.letGo()
	return Effects{Finished: u.finished()}, nil
}

func (u *Updates) finished() bool {
	for _, m := range u.members {
		if !m.done() {
			return false
		}
	}
	return u.begun > u.back
}

// othersDone reports whether nothing follows from any member but rank.
func (u *Updates) othersDone(rank id.Rank) bool {
	for r, m := range u.members {
		if r != rank && !m.done() {
			return false
		}
	}
	return true
}

// idle reports whether no generation has begun yet.
func (u *Updates) idle() bool { return u.begun == 0 }

// expects reports whether the process of a rank that joined in a generation may still send something.
func (u *Updates) expects(rank id.Rank, since id.Generation) bool {
	m := u.members[rank]
	return m != nil && !m.gone && !m.complete && m.since == since
}

// State answers Freeze.
func (u *Updates) State() State {
	return State{Generation: u.begun, History: u.history, Completed: u.where(func(m *progress) bool { return m.complete && !m.gone })}
}

// Missing returns the members that have not completed.
func (u *Updates) Missing() []id.Rank {
	return u.where(func(m *progress) bool { return !m.complete && !m.gone })
}

// where returns the ranks that ok holds of, ascending.
func (u *Updates) where(ok func(*progress) bool) []id.Rank {
	var ranks []id.Rank
	for rank, m := range u.members {
		if ok(m) {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}
