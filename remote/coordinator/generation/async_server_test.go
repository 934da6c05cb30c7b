package generation_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
)

// persist checks that a number means one generation, and that members who live stay what they are.
func (w *asyncWorld) persist(g generation.Generation) {
	if was, ok := w.begun[g.Number]; ok && was != fmt.Sprint(g.Members) || g.Number <= w.durable.Number && !ok {
		w.fail("generation %d is %v after %s; the last is %d", g.Number, g.Members, was, w.durable.Number)
	}
	for _, m := range g.Members {
		if was, ok := w.durable.Member(m.Rank); ok && was.Incarnation == m.Incarnation && was.Since != m.Since {
			w.fail("%+v becomes %+v", was, m)
		}
	}
	w.begun[g.Number] = fmt.Sprint(g.Members)
	w.durable.Generation, w.durable.Left = g, w.machine.State().Left
}

// settle gives back what those hold who are no members, but for what the ledger has.
func (w *asyncWorld) settle(g generation.Generation) {
	for _, k := range w.tasks {
		if k.holder == nil || k.done {
			continue
		}
		if m, ok := g.Member(k.holder.rank); ok && k.since >= m.Since {
			continue
		}
		w.given[k.holder.incarnation] = true
		k.records = slices.DeleteFunc(slices.Clone(k.records), func(r int) bool { return w.servers[0].ledger[r] > 0 })
		k.holder, k.done = nil, len(k.records) == 0
	}
}

// deliver takes one of what is under way.
func (w *asyncWorld) deliver() {
	if reports := w.leases.reports; len(reports) > 0 && w.chance.IntN(3) == 0 {
		i := w.chance.IntN(len(reports))
		rank := reports[i]
		w.leases.reports = slices.Delete(reports, i, i+1)
		w.shell().lost(rank)
	}
	if len(w.pending) > 0 {
		i := w.chance.IntN(len(w.pending))
		f := w.pending[i]
		w.pending = slices.Delete(w.pending, i, i+1)
		f()
	}
}

// asyncServer is a model of a pserver that keeps the rules of updates, and of the ledger.
type asyncServer struct {
	fence, generation, ended uint64
	members                  map[uint32]*stepper
	applied, ledger          map[int]int // by record
}

// stepper is a member as a server sees it.
type stepper struct {
	since, step, entered uint64
	complete             bool
}

func (s *asyncServer) state() *rpc.FreezeResponse {
	a := &rpc.FreezeResponse{Generation: s.generation}
	for _, rank := range slices.Sorted(maps.Keys(s.members)) {
		if s.members[rank].complete {
			a.Completed = append(a.Completed, rank)
		}
	}
	return a
}

func (s *asyncServer) resume(g generation.Generation) {
	if g.Number <= max(s.generation, s.ended) {
		return
	}
	members := map[uint32]*stepper{}
	for _, m := range g.Members {
		if members[m.Rank] = s.members[m.Rank]; members[m.Rank] == nil || members[m.Rank].since != m.Since {
			members[m.Rank] = &stepper{since: m.Since}
		}
	}
	s.generation, s.members = g.Number, members
}
