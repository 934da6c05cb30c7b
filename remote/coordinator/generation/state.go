package generation

import (
	"time"

	"github.com/edl-go/edl/proto/rpc"
)

// Policy says what a job wants of its members.
type Policy struct {
	Sync           bool
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
