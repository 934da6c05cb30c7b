package pserver

import (
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/remote/id"
)

// A machine decides what happens to the messages of a job at one server: Rounds in sync mode, Updates in async mode. It is pure: it knows no clock,
// socket or tensor. The server tells it every message, one at a time, and carries out the Effects.
type machine interface {
	// Step takes one event. An error refuses the event: it must not count, and nothing has changed but the fence that its sender knew. now is
	// there because all machines of remote have it. It is not read: the deadlines of the server are in waits.go.
	Step(now time.Duration, e Event) (Effects, error)
	// State answers Freeze.
	State() State
	// Missing returns the ranks that the server waits for, ascending.
	Missing() []id.Rank
	// Generation is the last one that has begun here, 0 for none.
	Generation() id.Generation
	// Fence is the highest fence that a coordinator has named.
	Fence() id.Fence
	// checkRank refuses a rank that the job cannot have.
	checkRank(rank id.Rank) error
	// idle reports whether nothing goes on before a coordinator begins a generation.
	idle() bool
}

// An Event is one thing that happened to a server: one of the types below.
type Event interface{ event() }

// A Sender says which trainer has sent a message, and how far it was. The Round of a Read in sync mode is the version that the trainer asks for.
type Sender id.Sender

func (Sender) event() {}

// What trainers do.
type (
	// Offered says that the header of a contribution has arrived. The machine decides whether its bytes may be received.
	Offered struct {
		Sender
		Variable string
	}
	// Received says that the bytes of a contribution are complete.
	Received struct {
		Sender
		Variable string
	}
	// Declared is a barrier: a trainer declares that it has sent all of its contribution to this server.
	Declared struct {
		Sender
		Variables   int         // sent to this server
		Declaration Declaration // its Rank is not read: the sender has one
		// Group is what each trainer of the sender's group that has not completed has contributed, in rank order. Then Declaration has only their
		// rows together. It is empty where the sender leads nobody.
		Group []Declaration
		// Counted is, with backup trainers, what server 0 has decided that the round is made of, without records. Server 0 itself does not read it.
		Counted []Declaration
		// Totals are those that the sender was told in the round, by place: see Shared. Only server 0 gets them.
		Totals [][]RankTotals
	}
	// Completed says that a trainer contributes to no later round.
	Completed struct{ Sender }
	// Read asks for a variable: in sync mode its version Round, in async mode one with all contributions of the asking trainer.
	Read struct{ Sender }
	// ReadFinal asks for a variable as it is when all other members have completed.
	ReadFinal struct{ Sender }
	// ReadAny asks for a variable as it is now.
	ReadAny struct{ Sender }
)

// What others do.
type (
	// Frozen says that a coordinator ends a generation.
	Frozen struct {
		Generation id.Generation
		Fence      id.Fence // of the coordinator
		Restores   bool     // Restored follows: also a server without the state that it is to have ends the generation
	}
	// Resumed says that a coordinator begins a generation. One without members is the end of the job.
	Resumed struct {
		Generation id.Generation
		Fence      id.Fence // of the coordinator
		Round      id.Round // sync: the first of the generation
		Members    []Member // in rank order
		// Commit says, in sync mode, what round Round-1 is made of, in rank order. It is empty when all servers have applied that round.
		Commit []Declaration
	}
	// Restored says that a coordinator ends a generation, and puts the state of a checkpoint in the place of what the server has.
	Restored struct {
		Generation id.Generation
		Fence      id.Fence // of the coordinator
		Round      id.Round // that the checkpoint was cut at; async: steps that it has
		History    uint64   // that begins with it
	}
	// Moved says that a server of another placement has taken the state that the job has after a generation has begun, before any of its rounds. Sync mode
	// only.
	Moved struct {
		Generation id.Generation
		Fence      id.Fence // of the coordinator
		Round      id.Round // the first of the generation
		History    uint64   // of the job
		Later      bool     // the state arrives later: until Applied it is that of a round which is being applied
	}
	// Applied is the server's own report: it has applied the round, or, in async mode, one contribution of Rank.
	Applied struct{ Rank id.Rank }
)

func (Frozen) event()   {}
func (Resumed) event()  {}
func (Restored) event() {}
func (Moved) event()    {}
func (Applied) event()  {}

// senderOf returns who has sent a trainer's message, and the zero Sender for other events. A method of Event could tell it as well, but would move every
// event to the heap.
func senderOf(e Event) Sender {
	switch e := e.(type) {
	case Offered:
		return e.Sender
	case Received:
		return e.Sender
	case Declared:
		return e.Sender
	case Completed:
		return e.Sender
	case Read:
		return e.Sender
	case ReadFinal:
		return e.Sender
	case ReadAny:
		return e.Sender
	case Paced:
		return e.Sender
	case Asked:
		return e.Sender
	case Shared:
		return e.Sender
	}
	return Sender{}
}

// A Member of a generation is a rank, with the generation in which its process joined, and the rank that contributes for it: its own, or that of the
// leader of its group, which is the lowest of the group.
type Member struct {
	Rank   id.Rank
	Since  id.Generation
	Leader id.Rank
}

// A Declaration is what a trainer says of its contribution to a round: how many rows it was computed from, what it weighs, and which records they were.
type Declaration struct {
	Rank    id.Rank
	Rows    int64
	Weight  int64 // in a mean, where it is not Rows: see merge.Share
	Void    bool  // Weight is a sum of weights, and 0: the contribution is no number, and no round may be made of such ones alone
	Pass    int32
	Records []ranges.Range
	Hour    int64  // that the trainer has read for the round: see ops.HourOf
	Steps   uint32 // async: of the push, at most maxSteps; 0: 1
}

// maxSteps is how many steps a push may have.
const maxSteps = 1000

// steps is how many steps a push has.
func (d Declaration) steps() id.Round { return id.Round(max(d.Steps, 1)) }

// Effects is what the server has to do because of an event, in the order of the fields. The zero value asks for nothing: the event counts, and that
// is all.
type Effects struct {
	Hold         bool          // the event comes too early: tell it again when something has changed
	Ignore       bool          // the event was applied before: acknowledge the message and change nothing
	LearningRate bool          // async: run the learning-rate block first, because the trainer begins a step with this contribution
	Commit       []Declaration // enter these in the ledger
	Drop         bool          // sync: free all contributions that have arrived; they count in no round
	Apply        bool          // sync: apply the round that Contributors have sent, then tell Applied
	Contributors []Declaration // those with rows, in rank order: without records; a group is one, with the rank of its leader
	Finished     bool          // every member has completed; nothing follows
	Shared       bool          // sync: totals are there that others may wait for, also with Hold or Ignore
	Cut          bool          // async: the server has exactly what a cut is to have: copy it, then tell LetGo
}

// State is what a server tells the coordinator that freezes it.
type State struct {
	Generation id.Generation // the last one that has begun here, 0 for none
	Round      id.Round      // sync: the version of the parameters; a round that is being applied counts, because all servers have its contributions
	Declared   []Declaration // sync: what members of the ended generation have declared for the open round
	Applied    []Declaration // sync: what the last round was made of; nil before the first
	Completed  []id.Rank
	History    uint64 // of the last Restored, 0 before the first
	// Lacks says, in sync mode, that the server was a standby until Round: of the contributions to it, only those that are Declared are here for sure.
	Lacks bool
}

// generations is what Rounds and Updates share: what a server knows of its job, of coordinators, and of the generations that they begin and end.
type generations struct {
	ranks     int             // ranks are less
	variables map[string]bool // that a contribution may hold
	fence     id.Fence
	begun     id.Generation // the last one that has begun here, 0 for none
	ended     id.Generation // generations up to this one have ended; it is greater than begun when one was ended before it began here
}

func newGenerations(ranks int, variables []string) generations {
	g := generations{ranks: ranks, variables: make(map[string]bool, len(variables))}
	for _, name := range variables {
		g.variables[name] = true
	}
	return g
}

// Generation is the last one that has begun here, 0 for none.
func (g *generations) Generation() id.Generation { return g.begun }

// Fence is the highest fence that a coordinator has named. What others say of fences does not count: a coordinator speaks to all servers before anybody
// trains with it.
func (g *generations) Fence() id.Fence { return g.fence }

// noteFence notes the fence that the server in whose place this one stands has heard.
func (g *generations) noteFence(f id.Fence) { g.fence = max(g.fence, f) }

func (g *generations) checkRank(rank id.Rank) error {
	if int(rank) >= g.ranks {
		return fault.E(fault.Foreign, fault.Gotf("trainer %d", rank), fault.Wantf("trainers 0 to %d", g.ranks-1))
	}
	return nil
}

// checkVariable refuses a contribution to a variable that this server does not hold.
func (g *generations) checkVariable(name string) error {
	if !g.variables[name] {
		return fault.E(fault.Foreign, fault.Var(name), fault.Got("a contribution that this server does not hold"),
			fault.Want("one of its gradients or states"))
	}
	return nil
}

// checkDeclared checks a barrier against the number of variables that were received: all of them, or none for a contribution without rows.
func (g *generations) checkDeclared(e Declared, received int) error {
	rows, all := e.Declaration.Rows, len(g.variables)
	if rows < 0 || e.Declaration.Weight < 0 || e.Variables != received || rows > 0 && received != all || rows == 0 && received != 0 {
		return fault.E(fault.InvalidArgument,
			fault.Gotf("a barrier of trainer %d over %d rows and %d variables with %d received", e.Rank, rows, e.Variables, received),
			fault.Wantf("all %d variables, or none for 0 rows", all))
	}
	return nil
}

// checkFence refuses a coordinator that another one has replaced, and notes the fence of one that is up to date.
func (g *generations) checkFence(f id.Fence) error {
	if f < g.fence {
		return fault.E(fault.Fenced, fault.Gotf("a message of the coordinator with fence %d", f),
			fault.Wantf("fence %d or higher: another coordinator has taken over", g.fence))
	}
	g.fence = f
	return nil
}

// freeze ends a generation.
func (g *generations) freeze(e Frozen) error {
	if err := g.checkFence(e.Fence); err != nil {
		return err
	}
	if e.Generation < g.begun {
		return fault.E(fault.Stale, fault.Gotf("the end of generation %d", e.Generation), fault.Wantf("generation %d", g.begun))
	}
	g.ended = max(g.ended, e.Generation)
	return nil
}

// checkResume decides whether a generation may begin. again reports that it has begun already.
func (g *generations) checkResume(e Resumed) (again bool, err error) {
	if err := g.checkFence(e.Fence); err != nil {
		return false, err
	}
	if err := g.checkMembers(e); err != nil {
		return false, err
	}
	if last := max(g.begun, g.ended); e.Generation == g.begun && e.Generation > 0 {
		return true, nil
	} else if e.Generation <= last {
		return false, fault.E(fault.Stale, fault.Gotf("the start of generation %d", e.Generation), fault.Wantf("one after generation %d", last))
	}
	return false, nil
}

// checkMembers checks that Members and Commit have ranks of the job in ascending order, that no member joined in a generation to come, and that
// leaders are members that lead themselves.
func (g *generations) checkMembers(e Resumed) error {
	ok, next := true, 0
	in := func(rank id.Rank) {
		ok = ok && int(rank) >= next && int(rank) < g.ranks
		next = int(rank) + 1
	}
	leads := map[id.Rank]bool{}
	for _, m := range e.Members {
		in(m.Rank)
		leads[m.Rank] = m.Leader == m.Rank
		ok = ok && m.Since <= e.Generation && leads[m.Leader]
	}
	next = 0
	for _, d := range e.Commit {
		in(d.Rank)
		ok = ok && d.Rows >= 0 && d.Weight >= 0
	}
	if !ok {
		return fault.E(fault.InvalidArgument, fault.Gotf("members %v with a commit of %d contributions", e.Members, len(e.Commit)),
			fault.Wantf("ranks 0 to %d, each once and in order", g.ranks-1))
	}
	return nil
}

// holdUnless lets a read wait until its value is there.
func holdUnless(ready bool) Effects { return Effects{Hold: !ready} }
