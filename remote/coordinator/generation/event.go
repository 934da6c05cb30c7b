package generation

import (
	"cmp"
	"slices"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// Policy says what a job wants of its members.
type Policy struct {
	Sync           bool
	Start          id.Round      // the first round of the job; async: how many updates the servers report before the first one
	History        uint64        // that the state of every server belongs to, where it is not 0
	GoesBack       bool          // the job goes back to a checkpoint when a server is lost
	Servers        int           // pservers, indexes 0 to Servers-1
	Standby        bool          // the standby of a server that is lost takes its place, in the same generation
	Min            int           // trainers that the job does not go on without
	Max            int           // ranks are 0 to Max-1; the number of trainers is fixed where Max is Min, else elastic
	RejoinDeadline time.Duration // for members that live to join the next generation; then an elastic job goes on without them
	StartDeadline  time.Duration // for trainers and servers that are missing; then the job fails
}

func (p Policy) fixed() bool { return p.Max <= p.Min }

// ranks is how many ranks the job may have.
func (p Policy) ranks() int { return max(p.Max, p.Min) }

// A Member is a trainer of a generation.
type Member struct {
	Rank        id.Rank
	Since       id.Generation  // in which this process joined
	Incarnation id.Incarnation // of the process
	At          Place
}

// A Place is where the process of a trainer is, in a job whose trainers merge by host. It is the zero Place in other jobs. It is not durable: every
// member of a sync job tells it again when it joins the next generation.
type Place struct {
	Host    string // trainers with the same name are on one host
	Address string // where the trainer answers others of its host
}

// A Generation is a set of members that share rounds.
type Generation struct {
	Number  id.Generation   // rises from 1; 0: there has been none
	Members []Member        // in rank order
	Round   id.Round        // sync: its first
	Commit  []*rpc.Declared // sync: what round Round-1 is made of, for servers that have not applied it
}

// Member returns the member of a rank.
func (g Generation) Member(rank id.Rank) (Member, bool) {
	if i := g.Position(rank); i >= 0 {
		return g.Members[i], true
	}
	return Member{}, false
}

// Leader returns who contributes for a rank: the lowest rank of its host, or the rank itself.
func (g Generation) Leader(rank id.Rank) id.Rank { return g.Group(rank)[0].Rank }

// Group returns the members on the host of a rank, in rank order. The first is their leader. A member whose host is not known is a group of its own.
func (g Generation) Group(rank id.Rank) (group []Member) {
	self, ok := g.Member(rank)
	if !ok || self.At.Host == "" {
		return []Member{self}
	}
	for _, m := range g.Members {
		if m.At.Host == self.At.Host {
			group = append(group, m)
		}
	}
	return group
}

// Position returns the index of a rank among the members, -1 for none.
func (g Generation) Position(rank id.Rank) int {
	i, ok := slices.BinarySearchFunc(g.Members, rank, func(m Member, rank id.Rank) int { return cmp.Compare(m.Rank, rank) })
	if !ok {
		return -1
	}
	return i
}

// State is what has to outlive a coordinator. The Commit of its generation need not: servers tell it again.
type State struct {
	Generation
	Settled id.Generation // the last generation whose members were answered
	Left    []id.Rank     // ranks that have trained all data and left in order
}

// An Event is what happens to the membership: one of the types below.
type Event interface {
	apply(m *Machine, now time.Duration, out *Effects) error
}

// Answers to effects (Frozen, Persisted, Resumed, Settled, Failed) carry the number of the change that they belong to. The machine ignores those of an
// older change.
type (
	// Began is the first event.
	Began struct{}
	// Tick says that time has passed; see Machine.Next.
	Tick struct{}
	// Wanted says how many trainers an elastic job is to have.
	Wanted struct{ Trainers int }
	// Joined says that a trainer waits for a generation that is newer than the last one that it was a member of. Step refuses a process that cannot be
	// the one of its rank.
	Joined struct {
		Rank        id.Rank
		Incarnation id.Incarnation
		Last        id.Generation
		At          Place
	}
	// Answered says that a trainer was given what Machine.Answer returned: it does not wait any more.
	Answered struct{ Rank id.Rank }
	// Lost says that the process of this incarnation is gone. Reason is its last error, if known.
	Lost struct {
		Rank        id.Rank
		Incarnation id.Incarnation
		Reason      string
	}
	// Left says that a trainer has left in order, with nothing more to train.
	Left struct{ Rank id.Rank }
	// Drained says that a trainer has left in order before the end of the data.
	Drained struct{ Rank id.Rank }
	// Progressed says that a round was committed.
	Progressed struct{}
	// DataFailed says that the data is to be divided anew, because a task cannot be read: the same members begin another generation.
	DataFailed struct{}
	// Moving says that the state is to move to other servers when the next generation has begun: the same members begin one.
	Moving struct{}
	// ServerLost says that the process of a server is gone, with what was in its memory.
	ServerLost struct{ Server int }
	// Frozen is a server's answer to Freeze.
	Frozen struct {
		Change uint64
		Server int
		Answer *rpc.FreezeResponse
	}
	// Persisted says that the generation is durable.
	Persisted struct{ Change uint64 }
	// Resumed is a server's answer to Resume.
	Resumed struct {
		Change uint64
		Server int
	}
	// Settled says that nothing of those who are gone is under way any more.
	Settled struct{ Change uint64 }
	// Failed says that an effect could not be carried out, and that trying again cannot help.
	Failed struct {
		Change uint64
		Err    error
	}
)

// Effects are what the coordinator does after an event, in this order. Those with a change number are given up when another change begins.
type Effects struct {
	Fail       error // end the job: it cannot go on. No effect follows
	End        bool  // end the job well, because every member has left: make that durable, and tell the servers. No effect follows
	Superseded bool  // tell the members of the last generation that wait for the coordinator to join the next one
	// Freeze is the number of a change: freeze every server with the generation that ends, which is Machine.Generation. In async mode that only asks who
	// has completed, because a member is gone.
	Freeze  uint64
	Persist *Next // make the generation durable under the lock
	Resume  *Next // tell every server
	Settle  *Next // return the tasks of those who are no members, or joined after State.Settled; make that durable with Settled
	Begun   bool  // Answer now knows the generation
}

// Next is a generation that a change is about to begin.
type Next struct {
	Change     uint64
	Generation Generation
}
