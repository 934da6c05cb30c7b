package generation

import (
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// Policy says what a job wants of its members.
type Policy struct {
	Sync           bool
	Start          id.Round      // the first round of the job; async: how many updates the servers report before the first one
	Servers        int           // pservers, indexes 0 to Servers-1
	Min            int           // trainers that the job does not go on without
	Max            int           // ranks are 0 to Max-1; the job is fixed where Max is Min, else elastic
	RejoinDeadline time.Duration // for members that live to join the next generation; then an elastic job goes on without them
	StartDeadline  time.Duration // for whoever is missing; then the job fails
}

func (p Policy) fixed() bool { return p.Max <= p.Min }

// A Member is a trainer of a generation.
type Member struct {
	Rank        uint32
	Since       uint64 // the generation in which this process joined
	Incarnation uint64 // revision of its key
}

// A Generation is a set of members that share rounds.
type Generation struct {
	Number  uint64 // rises from 1; 0: there has been none
	Members []Member
	Round   uint64          // sync: its first
	Commit  []*rpc.Declared // sync: what round Round-1 is made of, for servers that have not applied it
}

// Member returns the member of a rank.
func (g Generation) Member(rank uint32) (Member, bool) {
	for _, m := range g.Members {
		if m.Rank == rank {
			return m, true
		}
	}
	return Member{}, false
}

// Position returns the index of a rank among the members, -1 for none.
func (g Generation) Position(rank uint32) int {
	for i, m := range g.Members {
		if m.Rank == rank {
			return i
		}
	}
	return -1
}

// State is what has to outlive a coordinator. The Commit of its generation need not: servers tell it again.
type State struct {
	Generation
	Settled uint64   // the last generation whose members were answered
	Left    []uint32 // ranks that have trained all data and left in order
}

// An Event is something that a Machine is told.
type Event interface{ event() }

// Answers to effects carry the number of the change that they belong to; those of an older one are ignored.
type (
	// Start is the first event.
	Start struct{}
	// Tick says that time has passed; see Machine.Deadline.
	Tick struct{}
	// Wanted says how many trainers an elastic job is to have.
	Wanted struct{ Trainers int }
	// Joined says that a trainer waits for a generation that is newer than the last one that it was a member of.
	Joined struct {
		Rank        uint32
		Incarnation uint64
		Last        uint64
	}
	// Lost says that the process of this incarnation is gone. Reason is its last error, if known.
	Lost struct {
		Rank        uint32
		Incarnation uint64
		Reason      string
	}
	// Left says that a trainer has left in order, with nothing more to train.
	Left struct{ Rank uint32 }
	// Drained says that a trainer has left in order before the end of the data.
	Drained struct{ Rank uint32 }
	// Progress says that a round was committed.
	Progress struct{}
	// Change asks for a new generation of the same members: the data is to be divided anew.
	Change struct{}
	// ServerLost says that the process of a server is gone, with what it held.
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
	// Failed says that an effect could not be carried out, and never will be.
	Failed struct {
		Change uint64
		Err    error
	}
)

func (Start) event()      {}
func (Tick) event()       {}
func (Wanted) event()     {}
func (Joined) event()     {}
func (Lost) event()       {}
func (Left) event()       {}
func (Drained) event()    {}
func (Progress) event()   {}
func (Change) event()     {}
func (ServerLost) event() {}
func (Frozen) event()     {}
func (Persisted) event()  {}
func (Resumed) event()    {}
func (Settled) event()    {}
func (Failed) event()     {}

// Effects are what the coordinator has to do after an event. Those with a change number are to be given up when another change begins.
type Effects struct {
	Refuse     error // the trainer that joined may not
	Superseded bool  // whoever of the last generation waits for the coordinator is to join the next
	// Freeze is the number of a change: freeze every server with the generation that ends, which is Machine.Generation. In async mode that only asks who
	// has completed, where a member is gone.
	Freeze  uint64
	Persist *Next // make the generation durable under the lock
	Resume  *Next // tell every server
	Settle  *Next // return what those hold who are no members, and those who joined after State.Settled; make that durable with Settled
	Begun   bool  // Answer now knows the generation
	End     bool  // every member has left: make that durable, and tell the servers
	Fail    error // the job cannot go on
}

// Next is a generation that a change is about to begin.
type Next struct {
	Change     uint64
	Generation Generation
}
