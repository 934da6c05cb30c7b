package trainer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// groupRounds is the machine of the leader of a group: it decides what becomes of the messages of led trainers. A round of the group goes like this:
//
//	gathering ------ the last has declared ------> merging ------ parameters received ------> gathering, of the next round
//	contributions    nothing changes any more      the leader sends the merge, declares       led trainers may have the parameters
//	and declarations                               the group and waits for the round
//
// A led trainer that has not declared is not part of the round, and then nobody of the group is: the leader declares nothing.
type groupRounds struct {
	members []*groupMember // in rank order; the first is the leader
	round   id.Round       // open
	merging bool           // all have declared
}

// groupMember is what the leader knows of one member in the open round.
type groupMember struct {
	rank        id.Rank
	whole       bool          // the contribution has arrived
	declaration *rpc.Declared // nil: it has not declared
}

// newGroupRounds begins a generation with its first round.
func newGroupRounds(ranks []id.Rank, first id.Round) *groupRounds {
	r := &groupRounds{round: first}
	for _, rank := range ranks {
		r.members = append(r.members, &groupMember{rank: rank})
	}
	return r
}

// A groupEvent is one thing that happens to the leader of a group: one of the types below.
type groupEvent interface{ groupEvent() }

type (
	// contributing says that bytes of a contribution have come. The machine decides whether they are kept.
	contributing struct {
		rank  id.Rank
		round id.Round
	}
	// contributed says that a contribution is whole.
	contributed struct {
		rank  id.Rank
		round id.Round
	}
	// declaring says that a member has contributed all that it has. The rank is that of its declaration.
	declaring struct {
		round       id.Round
		declaration *rpc.Declared
	}
	// fetching asks for the parameters before a round.
	fetching struct {
		rank  id.Rank
		round id.Round
	}
	// fetched says that the leader has received the parameters before the next round.
	fetched struct{}
)

func (contributing) groupEvent() {}
func (contributed) groupEvent()  {}
func (declaring) groupEvent()    {}
func (fetching) groupEvent()     {}
func (fetched) groupEvent()      {}

// groupEffects is what the leader has to do because of an event. The zero value asks for nothing: the event counts.
type groupEffects struct {
	hold   bool // the event comes too early: tell it again when something has changed
	ignore bool // it was told before: acknowledge it, and change nothing
	merge  bool // all have declared: merge, send, and declare for all
}

// Step takes one event. An error refuses it: then nothing has changed. now is there because all machines have it.
func (r *groupRounds) Step(_ time.Duration, e groupEvent) (groupEffects, error) {
	switch e := e.(type) {
	case contributing:
		m, f, err := r.open(e.rank, e.round)
		f.ignore = f.ignore || m != nil && (m.whole || m.declaration != nil)
		return f, err
	case contributed:
		m, f, err := r.open(e.rank, e.round)
		if m == nil || m.whole || m.declaration != nil {
			return groupEffects{ignore: err == nil}, err
		}
		m.whole = true
		return f, nil
	case declaring:
		return r.declare(e)
	case fetching:
		return r.fetch(e)
	case fetched:
		if !r.merging {
			return groupEffects{}, fault.E(fault.Internal, fault.Gotf("the parameters of round %d", r.round+1),
				fault.Wantf("the merge of round %d first", r.round))
		}
		r.round, r.merging = r.round+1, false
		for _, m := range r.members {
			m.whole, m.declaration = false, nil
		}
		return groupEffects{}, nil
	}
	panic("trainer: an unknown type of event") // all types are in this file
}

// member returns the member of a rank.
func (r *groupRounds) member(rank id.Rank) (*groupMember, error) {
	if i := slices.IndexFunc(r.members, func(m *groupMember) bool { return m.rank == rank }); i >= 0 {
		return r.members[i], nil
	}
	return nil, fault.E(fault.Foreign, fault.Gotf("trainer %d", rank), fault.Wantf("trainers %v, who are of one host", r.ranks()))
}

// open returns the member whose message belongs to the open round. It is nil for a message of the round before, which is to be ignored.
func (r *groupRounds) open(rank id.Rank, round id.Round) (*groupMember, groupEffects, error) {
	m, err := r.member(rank)
	switch {
	case err != nil:
		return nil, groupEffects{}, err
	case round == r.round:
		return m, groupEffects{}, nil
	case round < r.round && round+1 == r.round:
		return nil, groupEffects{ignore: true}, nil
	}
	kind := fault.Stale
	if round > r.round {
		kind = fault.Foreign
	}
	return nil, groupEffects{}, fault.E(kind, fault.Gotf("round %d of trainer %d", round, rank), fault.Wantf("round %d", r.round))
}

func (r *groupRounds) declare(e declaring) (groupEffects, error) {
	m, f, err := r.open(id.Rank(e.declaration.Rank), e.round)
	if m == nil || m.declaration != nil {
		return groupEffects{ignore: err == nil}, err
	}
	if rows := e.declaration.Rows; rows < 0 || (rows > 0) != m.whole {
		return f, fault.E(fault.InvalidArgument,
			fault.Gotf("a declaration of trainer %d of %d rows, with a whole contribution: %v", m.rank, rows, m.whole),
			fault.Want("a contribution with rows, or none without"))
	}
	m.declaration = e.declaration
	r.merging = len(r.missing()) == 0
	return groupEffects{merge: r.merging}, nil
}

func (r *groupRounds) fetch(e fetching) (groupEffects, error) {
	switch _, err := r.member(e.rank); {
	case err != nil:
		return groupEffects{}, err
	case e.round == r.round:
		return groupEffects{}, nil
	case e.round > r.round && e.round-r.round == 1:
		return groupEffects{hold: true}, nil
	case e.round < r.round:
		return groupEffects{}, fault.E(fault.Stale, fault.Gotf("a request for version %d", e.round), fault.Wantf("version %d", r.round))
	}
	return groupEffects{}, fault.E(fault.Foreign, fault.Gotf("a request for version %d", e.round), fault.Wantf("version %d", r.round))
}

// declarations are those of all members, in rank order, when all have declared.
func (r *groupRounds) declarations() []*rpc.Declared {
	list := make([]*rpc.Declared, len(r.members))
	for i, m := range r.members {
		list[i] = m.declaration
	}
	return list
}

// missing returns the ranks that have not declared the open round.
func (r *groupRounds) missing() (ranks []id.Rank) {
	for _, m := range r.members {
		if m.declaration == nil {
			ranks = append(ranks, m.rank)
		}
	}
	return ranks
}

func (r *groupRounds) ranks() []id.Rank {
	list := make([]id.Rank, len(r.members))
	for i, m := range r.members {
		list[i] = m.rank
	}
	return list
}

// String shows the state on one line, for tests.
func (r *groupRounds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "round %d", r.round)
	if r.merging {
		b.WriteString(" merging")
	}
	for _, m := range r.members {
		fmt.Fprintf(&b, "; trainer %d", m.rank)
		switch {
		case m.declaration != nil:
			fmt.Fprintf(&b, " declared %d rows", m.declaration.Rows)
		case m.whole:
			b.WriteString(" has sent all")
		}
	}
	return b.String()
}
