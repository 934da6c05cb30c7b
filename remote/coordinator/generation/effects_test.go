package generation_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
)

// later lets an effect of this coordinator happen at any time, also when another has followed it: servers and the store refuse it then.
func (w *world) later(f func(still bool)) {
	fence := w.fence
	w.pending = append(w.pending, func() { f(fence == w.fence) })
}

// shell takes what the registry and trainers say to the coordinator that there is now.
func (w *world) shell() shell {
	return shell{&w.leases, w.machine, w.step, func(f func()) {
		w.later(func(still bool) {
			if still {
				f()
			}
		})
	}}
}

// step lets the coordinator carry out what follows from an event. It reports whether that was not refused.
func (w *world) step(e generation.Event) bool {
	out := w.machine.Step(w.now, e)
	if out.Fail != nil {
		w.failed = out.Fail
	}
	if out.Refuse != nil {
		return false
	}
	if out.Freeze > 0 {
		w.freeze(out.Freeze, w.machine.Generation().Number)
	}
	if n := out.Persist; n != nil {
		w.later(func(still bool) {
			if still {
				w.persist(n.Generation)
				w.step(generation.Persisted{Change: n.Change})
			}
		})
	}
	if n := out.Resume; n != nil {
		for i := range w.servers {
			w.resume(i, n)
		}
	}
	if n := out.Settle; n != nil {
		w.later(func(still bool) {
			if still {
				w.durable.Settled = n.Generation.Number
				w.step(generation.Settled{Change: n.Change})
			}
		})
	}
	return true
}

func (w *world) persist(g generation.Generation) {
	if was, ok := w.begun[g.Number]; ok && was != fmt.Sprint(g.Members, g.Round) || g.Number <= w.durable.Number && !ok {
		w.t.Fatalf("generation %d is %v from %d after %s; the last is %d", g.Number, g.Members, g.Round, was, w.durable.Number)
	}
	w.begun[g.Number] = fmt.Sprint(g.Members, g.Round)
	w.durable.Generation = g
	w.durable.Commit = nil
}

func (w *world) freeze(change, number uint64) {
	fence := w.fence
	for i, s := range w.servers {
		w.later(func(still bool) {
			if fence < s.fence {
				return
			}
			s.fence, s.frozen = fence, max(s.frozen, number)
			answer := &rpc.FreezeResponse{Generation: s.generation, Round: s.round, Applied: declared(s.applied),
				Declared: declared(slices.Collect(maps.Keys(s.declared)))}
			if still {
				w.step(generation.Frozen{Change: change, Server: i, Answer: answer})
			}
		})
	}
}

func (w *world) resume(i int, n *generation.Next) {
	fence, s, g := w.fence, w.servers[i], n.Generation
	if w.durable.Number != g.Number {
		w.t.Fatalf("servers are told of generation %d, and %d is durable", g.Number, w.durable.Number)
	}
	w.later(func(still bool) {
		if fence < s.fence {
			return
		}
		s.fence = fence
		if s.generation < g.Number {
			if s.round+1 == g.Round {
				var ranks []uint32
				for _, d := range g.Commit {
					ranks = append(ranks, d.Rank)
				}
				s.apply(ranks)
				w.note(s)
			}
			if s.round != g.Round {
				w.t.Fatalf("server %d is at round %d, generation %d begins at %d", i, s.round, g.Number, g.Round)
			}
			s.generation, s.declared, s.members = g.Number, map[uint32]bool{}, nil
			for _, m := range g.Members {
				s.members = append(s.members, m.Rank)
			}
		}
		if still {
			w.step(generation.Resumed{Change: n.Change, Server: i})
		}
	})
}
