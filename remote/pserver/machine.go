package pserver

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

// A machine decides what happens to the messages of a job at one server: Rounds in sync mode, Updates in async mode. It is pure: no clock, socket
// or tensor. The server calls Step for every message, one at a time, and obeys the Decision.
type machine interface {
	Step(Event) Decision
	// State answers Freeze.
	State() State
	// Missing returns the ranks that the server waits for, ascending.
	Missing() []int
	// Generation is the last one that has begun here, 0 for none.
	Generation() uint64
	// Fence is the highest revision of the coordinator's lock that was heard of.
	Fence() uint64
	hear(fence uint64)
	// idle reports whether a coordinator has to begin a generation before anything goes on.
	idle() bool
}

// An EventKind says what a message does.
type EventKind int

// Kinds of event.
const (
	Offer     EventKind = iota // the header of a contribution arrived: may its bytes be received?
	Deliver                    // the bytes of a contribution are complete
	Barrier                    // a member declares its contribution to the round complete
	Complete                   // a member contributes to no later round
	Read                       // a member asks for a variable as it is after Round rounds (sync), or with all of its own contributions (async)
	ReadFinal                  // a member asks for a variable as it is when every other member has completed
	ReadAny                    // somebody asks for a variable as it is now
	Freeze                     // a coordinator ends a generation
	Resume                     // a coordinator begins a generation
	Applied                    // the server's own report: a round, or the contribution of Rank to Variable, has been applied
)

// An Event is one message, or the server's own report.
type Event struct {
	Kind       EventKind
	Rank       int
	Generation uint64 // of a trainer: that it is a member of (sync), or joined in (async); of Freeze: that ends; of Resume: that begins
	Fence      uint64 // of a coordinator: its own; of others: the highest that they have heard of
	Round      uint64 // of Resume: the first of the generation
	Variable   string
	Variables  int        // of a Barrier: how many variables the member sent to this server
	Share      Declared   // of a Barrier; its Rank is the event's
	Members    []Member   // of Resume, in rank order
	Commit     []Declared // of Resume: what round Round-1 is made of, in rank order; nothing where it has been applied everywhere
}

// A Member of a generation is a rank with the generation in which its process joined.
type Member struct {
	Rank  int
	Since uint64
}

// Declared is what a trainer says of its contribution: how many rows it was computed from, and which records they were.
type Declared struct {
	Rank    int
	Rows    int64
	Pass    int32
	Records []Range
}

// A Verdict says what to do with the message itself.
type Verdict int

// Verdicts.
const (
	Take   Verdict = iota // it counts
	Ignore                // it was applied before: acknowledge, change nothing
	Hold                  // its round, version or generation is still to come: ask again when something has changed
	Refuse                // it must not count; Err says why
)

// String names the verdict as its constant.
func (v Verdict) String() string { return [...]string{"Take", "Ignore", "Hold", "Refuse"}[v] }

// A Decision is the answer to one event.
type Decision struct {
	Verdict  Verdict
	Err      error
	Apply    bool          // sync: all contributions are here: apply the round now, then report Applied
	Shares   []Contributor // of Apply: who contributed, in rank order
	Drop     bool          // sync: free what has arrived, it counts in no round
	Tick     bool          // async: the trainer begins a new step with this contribution: run the learning-rate block first
	Commit   *Declared     // async: enter it in the ledger
	Finished bool          // every member has completed: nothing will follow
}

// A Contributor is a member whose contribution to a round counts.
type Contributor struct {
	Rank int
	Rows int64
}

// State is what a server tells a coordinator that freezes it.
type State struct {
	Generation uint64     // the last one that has begun here, 0 for none
	Round      uint64     // sync: rounds applied; one that is being applied counts, because all of its contributions are everywhere
	Declared   []Declared // sync: the barriers of the open round, when they are of the generation that has ended last
	Applied    []Declared // sync: what the last round was made of
	Completed  []int      // ranks
}

func refuse(kind fault.Kind, got, want string, args ...any) Decision {
	return Decision{Verdict: Refuse, Err: fault.E(kind, fault.Gotf(got, args...), fault.Want(want))}
}

// unknownVariable refuses a contribution to what this server does not hold.
func unknownVariable(name string) Decision {
	return Decision{Verdict: Refuse, Err: fault.E(fault.Foreign, fault.Var(name), fault.Got("a contribution that this server does not hold"),
		fault.Want("one of its gradients or states"))}
}

// term is what a server knows of coordinators and of the generations that they begin and end.
type term struct {
	limit      int    // ranks are less
	fence      uint64 // the highest revision of the coordinator's lock that was heard of
	generation uint64 // the last one that has begun here, 0 for none
	ended      uint64 // generations up to this one have ended; in sync mode the server is frozen when that is the last one
}

// hear notes the fence of a message of anybody but a coordinator.
func (t *term) hear(fence uint64) { t.fence = max(t.fence, fence) }

// Generation is the last one that has begun here, 0 for none.
func (t *term) Generation() uint64 { return t.generation }

// Fence is the highest revision of the coordinator's lock that was heard of.
func (t *term) Fence() uint64 { return t.fence }

// obey checks that a message comes from the newest coordinator that was heard of, and notes its fence.
func (t *term) obey(e Event) error {
	if e.Fence < t.fence {
		return fault.E(fault.Fenced, fault.Gotf("a message of the coordinator with fence %d", e.Fence),
			fault.Wantf("fence %d or higher: another coordinator has taken over", t.fence))
	}
	t.fence = e.Fence
	return nil
}

// known refuses ranks that the job cannot have.
func (t *term) known(rank int) error {
	if rank < 0 || rank >= t.limit {
		return fault.E(fault.Foreign, fault.Gotf("trainer %d", rank), fault.Wantf("trainers 0 to %d", t.limit-1))
	}
	return nil
}

// checkResume checks that members and commit are ranks of the job in ascending order, and that nobody joined in a generation to come.
func (t *term) checkResume(e Event) error {
	ranks := func(n int, rank func(int) int) bool {
		ordered := true
		for i := range n {
			ordered = ordered && t.known(rank(i)) == nil && (i == 0 || rank(i-1) < rank(i))
		}
		return ordered
	}
	if !ranks(len(e.Members), func(i int) int { return e.Members[i].Rank }) || !ranks(len(e.Commit), func(i int) int { return e.Commit[i].Rank }) ||
		slices.ContainsFunc(e.Members, func(m Member) bool { return m.Since > e.Generation }) ||
		slices.ContainsFunc(e.Commit, func(d Declared) bool { return d.Rows < 0 }) {
		return fault.E(fault.InvalidArgument, fault.Gotf("members %v with a commit of %d contributions", e.Members, len(e.Commit)),
			fault.Wantf("ranks 0 to %d, each once and in order", t.limit-1))
	}
	return nil
}
