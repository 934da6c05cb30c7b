package pserver

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

// A Standing is what a machine knows beside contributions: what a standby has to know to go on where its server stood. In async mode it also has to know how
// far each trainer is; see asyncstanding.go.
type Standing struct {
	Generation id.Generation // that has begun
	Ended      id.Generation // generations up to this one have ended
	Fence      id.Fence
	First      id.Round // of the generation
	History    uint64
	Members    []Member // in rank order; Since is not kept in sync mode
	Completed  []id.Rank
	Back       id.Generation // async: messages of generations up to this one belong to an earlier history
	Clocks     []Clock       // async: of the server that keeps the ledger, in rank order
}

// What happens to the machine of a standby.
type (
	// Followed says what the server of the standby stands at.
	Followed struct{ Standing }
	// Synced says that the parameters are those of the server at a round, and what the round before is made of.
	Synced struct {
		Round   id.Round
		Applied []Declaration
	}
	// Merged says that the merge of all contributions to a round is here: the server has told nobody yet that the round is applied. Applied follows.
	Merged struct {
		Round id.Round
		By    []Declaration
	}
	// TookOver says that the standby is the server from now on. It has every round that anybody may have seen, and nothing of what was sent for the next.
	TookOver struct{}
)

func (Followed) event() {}
func (Synced) event()   {}
func (Merged) event()   {}
func (TookOver) event() {}

// standingOf is what a standby of the server has to know now.
func standingOf(r *Rounds) Standing {
	s := Standing{Generation: r.begun, Ended: r.ended, Fence: r.fence, First: r.first, History: r.history}
	for _, m := range r.members {
		s.Members = append(s.Members, Member{Rank: m.rank, Leader: m.leader.rank})
		if m.complete {
			s.Completed = append(s.Completed, m.rank)
		}
	}
	return s
}

// follow takes an event of a standby.
func follow(r *Rounds, e Event) (Effects, error) {
	switch e := e.(type) {
	case Followed:
		return Effects{}, stand(r, e.Standing)
	case Synced:
		r.round, r.applying, r.lastApplied = e.Round, false, e.Applied
		noteDropped(&r.jury, r.members, e.Applied)
	case Merged:
		if r.applying || e.Round != r.round {
			return Effects{}, fault.E(fault.Internal, fault.Gotf("the merge of round %d", e.Round), fault.Wantf("that of round %d", r.round))
		}
		r.applying, r.lastApplied = true, e.By
		noteDropped(&r.jury, r.members, e.By)
	case TookOver:
		r.lacks, r.tookOver = r.committed(), true
		return r.advance(Effects{}), nil
	}
	return Effects{}, nil
}

// stand makes the generation that of the server. The round stays.
func stand(r *Rounds, s Standing) error {
	if err := r.checkMembers(Resumed{Generation: s.Generation, Members: s.Members}); err != nil {
		return err
	}
	r.begun, r.ended, r.first, r.history = s.Generation, s.Ended, s.First, s.History
	r.noteFence(s.Fence)
	r.members = nil
	for _, m := range s.Members {
		next := &member{rank: m.Rank, received: map[string]bool{}, complete: slices.Contains(s.Completed, m.Rank)}
		r.members = append(r.members, next)
		next.leader = r.members.find(m.Leader)
	}
	return nil
}

// takeover is what Rounds knows of the standby that it was.
type takeover struct {
	tookOver bool
	lacks    id.Round // that was open then: it may be declared elsewhere by those whose contribution is not here
}

// lacking reports whether a round may lack contributions that were acknowledged: to the server that this one was the standby of.
func (t *takeover) lacking(round id.Round) bool { return t.tookOver && t.lacks == round }
