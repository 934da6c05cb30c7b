package generation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

// asyncWorld is an async job whose messages come when chance says: late, twice, out of order, or never. It has one pass of records; a batch is one
// record.
type asyncWorld struct {
	t       *testing.T
	seed    uint64
	chance  *rand.Rand
	policy  generation.Policy
	machine *generation.Machine
	fence   uint64
	durable generation.State
	begun   map[uint64]string // generation to members, as made durable
	servers []*asyncServer
	seats   []*process // the process of each rank that its supervisor has started last
	zombies []*process // that were given up and live on
	now     time.Time
	next    uint64 // incarnation
	leases  leases
	losses  int      // processes that ended in the middle of something, or were believed to have
	pending []func() // what is under way, in any order
	tasks   []*task
	given   map[uint64]bool // processes whose tasks were given back: nothing of them may be applied any more
	ended   bool
	failed  error
}

// A task is records that one process is to train.
type task struct {
	records []int
	holder  *process // nil: nobody
	since   uint64   // of the holder
	done    bool
}

func newAsyncWorld(t *testing.T, seed uint64) *asyncWorld {
	w := &asyncWorld{t: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 5)), now: time.Unix(0, 0), begun: map[uint64]string{},
		given: map[uint64]bool{}, leases: newLeases()}
	w.policy = generation.Policy{Servers: 1 + w.chance.IntN(3), Min: 1 + w.chance.IntN(3), RejoinDeadline: time.Minute, StartDeadline: time.Hour}
	w.policy.Max = w.policy.Min + w.chance.IntN(3)
	for range w.policy.Servers {
		w.servers = append(w.servers, &asyncServer{members: map[uint32]*stepper{}, applied: map[int]int{}, ledger: map[int]int{}})
	}
	for rank := range w.policy.Max {
		w.seats = append(w.seats, nil)
		w.seat(uint32(rank))
	}
	for first, records := 0, 1+w.chance.IntN(30); first < records; first += 4 {
		k := &task{}
		for r := first; r < min(first+4, records); r++ {
			k.records = append(k.records, r)
		}
		w.tasks = append(w.tasks, k)
	}
	w.restart()
	return w
}

func (w *asyncWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// restart replaces the coordinator by another, which knows what is durable.
func (w *asyncWorld) restart() {
	w.fence++
	w.machine = generation.New(w.policy, w.durable)
	w.leases.watch(w.policy.Max)
	for _, p := range append(slices.Clone(w.seats), w.zombies...) {
		p.waits = false // its call has failed
	}
	w.step(generation.Wanted{Trainers: 1 + w.chance.IntN(w.policy.Max)})
	w.step(generation.Start{})
	for _, m := range w.durable.Members {
		if !w.leases.lives(m.Rank, m.Incarnation) {
			w.step(generation.Lost{Rank: m.Rank, Incarnation: m.Incarnation})
		}
	}
}

// step lets the coordinator carry out what follows from an event. It reports whether that was not refused.
func (w *asyncWorld) step(e generation.Event) bool {
	out := w.machine.Step(w.now, e)
	switch {
	case out.Refuse != nil:
		return false
	case out.Fail != nil:
		w.failed = out.Fail
	case out.End:
		w.ended = true
	case out.Superseded:
		w.fail("the members of an async job are told to join again")
	}
	if number := w.machine.Generation().Number; out.Freeze > 0 {
		w.toServers(func(i int, s *asyncServer) generation.Event {
			s.ended = max(s.ended, number)
			return generation.Frozen{Change: out.Freeze, Server: i, Answer: s.state()}
		})
	}
	if n := out.Persist; n != nil {
		w.later(func() generation.Event {
			w.persist(n.Generation)
			return generation.Persisted{Change: n.Change}
		})
	}
	if n := out.Resume; n != nil {
		if w.durable.Number != n.Generation.Number {
			w.fail("servers are told of generation %d, and %d is durable", n.Generation.Number, w.durable.Number)
		}
		w.toServers(func(i int, s *asyncServer) generation.Event {
			s.resume(n.Generation)
			return generation.Resumed{Change: n.Change, Server: i}
		})
	}
	if n := out.Settle; n != nil {
		w.later(func() generation.Event {
			w.settle(n.Generation)
			w.durable.Settled = n.Generation.Number
			return generation.Settled{Change: n.Change}
		})
	}
	return true
}
