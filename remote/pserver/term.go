package pserver

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

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
