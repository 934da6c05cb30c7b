package pserver

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

// member is what a server knows of one member of the generation in the open round.
type member struct {
	rank        id.Rank
	leader      *member         // who contributes for it: itself, or the leader of its group
	received    map[string]bool // variables of its contribution
	declared    bool
	declaration Declaration // when declared
	complete    bool
}

// missing reports whether the open round waits for the member.
func (m *member) missing() bool { return !m.declared && !m.complete }

// members are those of a generation, in rank order.
type members []*member

// find returns the member of a rank, or nil.
func (ms members) find(rank id.Rank) *member {
	for _, m := range ms {
		if m.rank == rank {
			return m
		}
	}
	return nil
}

// declarations returns what the members have declared for the open round, in rank order.
func (ms members) declarations() []Declaration {
	list := make([]Declaration, 0, len(ms))
	for _, m := range ms {
		if m.declared {
			list = append(list, m.declaration)
		}
	}
	return list
}

// othersComplete reports whether every member but rank has completed.
func (ms members) othersComplete(rank id.Rank) bool {
	return !slices.ContainsFunc(ms, func(m *member) bool { return m.rank != rank && !m.complete })
}

// ledBy returns those that a member contributes for and that have not completed, in rank order.
func (ms members) ledBy(leader *member) (list members) {
	for _, m := range ms {
		if m.leader == leader && !m.complete {
			list = append(list, m)
		}
	}
	return list
}

// leads reports whether a member contributes for others, too.
func (ms members) leads(leader *member) bool {
	for _, m := range ms {
		if m.leader == leader && m != leader {
			return true
		}
	}
	return false
}

// checkGroup refuses a declaration of a group that is not of all its members, or whose rows and weight are not theirs.
func checkGroup(e Declared, all members) error {
	rows, weight, ok := e.Declaration.Rows, e.Declaration.Weight, len(e.Group) == len(all)
	for i, d := range e.Group {
		ok = ok && d.Rank == all[i].rank && d.Rows >= 0 && d.Rows <= rows && d.Weight >= 0 && d.Weight <= weight
		rows, weight = rows-d.Rows, weight-d.Weight
	}
	if ok && rows == 0 && weight == 0 {
		return nil
	}
	ranks := make([]id.Rank, len(all))
	for i, m := range all {
		ranks[i] = m.rank
	}
	return fault.E(fault.InvalidArgument,
		fault.Gotf("a barrier of trainer %d for %d trainers with %d rows", e.Rank, len(e.Group), e.Declaration.Rows),
		fault.Wantf("one for trainers %v, with the rows of all", ranks))
}

// checkLeader refuses contributions of a member whose leader contributes for it.
func (m *member) checkLeader() error {
	if m.leader == m {
		return nil
	}
	return fault.E(fault.Foreign, fault.Gotf("a contribution of trainer %d", m.rank),
		fault.Wantf("one of trainer %d, which merges for its host", m.leader.rank))
}

// checkCommit refuses to commit contributions to a round that are not here, and names them. variables are those that a contribution holds.
func (ms members) checkCommit(commit []Declaration, round id.Round, variables map[string]bool) error {
	missing := ""
	for _, d := range commit {
		m := ms.find(d.Rank)
		for _, name := range sorted(variables) {
			if d.Rows > 0 && (m == nil || !m.leader.received[name]) {
				missing += fmt.Sprintf(" %s of trainer %d,", fault.Quote(name), d.Rank)
			}
		}
	}
	for _, m := range ms { // what a leader has sent has the rows of its whole group
		in := func(of *member) bool {
			return slices.ContainsFunc(commit, func(d Declaration) bool { return d.Rank == of.rank })
		}
		if m.leader != m && in(m) != in(m.leader) && !m.complete && !m.leader.complete {
			missing += fmt.Sprintf(" one of trainers %d and %d,", m.leader.rank, m.rank)
		}
	}
	if missing == "" {
		return nil
	}
	return fault.E(fault.Internal, fault.Gotf("round %d to commit without%s", round, missing[:len(missing)-1]),
		fault.Want("a decision that rests on what the servers have"))
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
