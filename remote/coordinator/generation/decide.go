package generation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// Decide says at which round all servers go on after a freeze that ended generation g, and what the round before is made of. answers are those of all
// servers, by index. start is the first round of the job, or of a history that began with a checkpoint; then every server must have the state of it.
//
// When some server has applied a round, every member had declared it. A member declares a round after it has sent its contribution to every server, so all
// servers can apply the round. The same holds when every member has declared the round at some server. In every other case no server has applied the open
// round, and no server will.
func Decide(start id.Round, history uint64, g Generation, answers []*rpc.FreezeResponse) (round id.Round, commit []*rpc.Declared, err error) {
	begun := max(g.Round, start)
	least, most := applied(start, answers[0]), applied(start, answers[0])
	shared := true // the open round of every server is one of g
	for _, a := range answers {
		least, most = min(least, applied(start, a)), max(most, applied(start, a))
		shared = shared && id.Generation(a.Generation) == g.Number
	}
	if err := sameHistory(history, answers, fmt.Sprintf("after the checkpoint of round %d", start)); err != nil {
		return 0, nil, err
	}
	for server, a := range answers {
		if last := max(most, begun); a.Generation == 0 && last > start {
			return 0, nil, parametersGone(server, fmt.Sprintf("after round %d", last-1))
		}
	}
	// A decision that was made durable stands, also where no server has heard of it yet.
	round = max(most, begun)
	if round-least > 1 {
		return 0, nil, fault.E(fault.Internal, fault.At("coordinator"),
			fault.Gotf("servers that have applied %d to %d rounds, with a decision for %d", least, most, begun),
			fault.Want("rounds that differ by at most 1"))
	}
	if shared && least == most && most >= begun && declaredByAll(g, answers) && !slices.ContainsFunc(answers, func(a *rpc.FreezeResponse) bool {
		return a.Lacks && !declaredByAll(g, []*rpc.FreezeResponse{a})
	}) {
		round++
	}
	commit = madeOf(round, answers)
	for server, a := range answers {
		if a.Lacks && id.Round(a.Round) < round && !slices.EqualFunc(a.Declared, commit, func(a, b *rpc.Declared) bool { return a.Rank == b.Rank }) {
			return 0, nil, fault.E(fault.LostState, fault.At("coordinator"),
				fault.Gotf("pserver %d lost in round %d, which others have applied; its standby lacks contributions to it", server, a.Round),
				fault.Want("its contributors to send them again"))
		}
	}
	return round, commit, nil
}

// sameHistory refuses a server that has the state of another history: it was started after the others had gone back, or has gone back although the job
// has not.
func sameHistory(history uint64, answers []*rpc.FreezeResponse, when string) error {
	for server, a := range answers {
		if a.History != history {
			return parametersGone(server, when)
		}
	}
	return nil
}

// applied is how many rounds a server has applied. One that has never heard of a generation has the parameters that the job begins with.
func applied(start id.Round, a *rpc.FreezeResponse) id.Round {
	if a.Generation == 0 {
		return max(id.Round(a.Round), start)
	}
	return id.Round(a.Round)
}

// parametersGone is why a job cannot go on without the server that held a part of its parameters.
func parametersGone(server int, when string) error {
	return fault.E(fault.LostState, fault.At("coordinator"), fault.Gotf("pserver %d lost %s; its parameters are gone", server, when),
		fault.Want("a living server"), fault.Hintf("look at its log: edl logs JOB pserver-%d", server))
}

// declaredByAll reports whether every member that has not completed has declared the open round at some server.
func declaredByAll(g Generation, answers []*rpc.FreezeResponse) bool {
	declared, completed := map[id.Rank]bool{}, map[id.Rank]bool{}
	for _, a := range answers {
		for _, d := range a.Declared {
			declared[id.Rank(d.Rank)] = true
		}
		for _, rank := range a.Completed {
			completed[id.Rank(rank)] = true
		}
	}
	all := false
	for _, m := range g.Members {
		switch {
		case declared[m.Rank]:
			all = true
		case !completed[m.Rank]:
			return false
		}
	}
	return all
}

// madeOf tells what the round before round is made of: as those servers say that have applied it, else as it was declared to those that wait to.
func madeOf(round id.Round, answers []*rpc.FreezeResponse) []*rpc.Declared {
	parts := map[uint32]*rpc.Declared{}
	for _, a := range answers {
		if id.Round(a.Round) == round {
			return a.Applied
		}
		for _, d := range a.Declared {
			parts[d.Rank] = d
		}
	}
	return slices.SortedFunc(maps.Values(parts), func(a, b *rpc.Declared) int { return cmp.Compare(a.Rank, b.Rank) })
}
