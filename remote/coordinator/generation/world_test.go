package generation_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

// server is a model of a pserver that keeps the rules of rounds: it applies a round when it holds the barrier of every member of its generation.
type server struct {
	fence, generation, round uint64
	frozen                   uint64 // generations up to this one have ended
	members                  []uint32
	declared                 map[uint32]bool
	applied                  []uint32 // what the last round was made of
}

func (s *server) apply(members []uint32) {
	s.applied, s.declared = slices.Sorted(slices.Values(members)), map[uint32]bool{}
	s.round++
}

// trainer is a model of a trainer process.
type trainer struct {
	incarnation, last, round uint64
	claimed, member, waits   bool
}

// world is a job whose messages come when rapid says.
type world struct {
	t        *rapid.T
	policy   generation.Policy
	machine  *generation.Machine
	fence    uint64
	durable  generation.State
	servers  []*server
	trainers []*trainer
	now      time.Time
	next     uint64 // incarnation
	leases   leases
	pending  []func()          // what is under way, in any order
	begun    map[uint64]string // generation to members, as made durable
	history  map[uint64]string // round to what it is made of
	failed   error             // why the job ended
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, policy: generation.Policy{Sync: true, Servers: rapid.IntRange(1, 3).Draw(t, "servers"), Min: rapid.IntRange(1, 3).Draw(t, "min"),
		RejoinDeadline: time.Minute, StartDeadline: time.Hour}, begun: map[uint64]string{}, history: map[uint64]string{}, now: time.Unix(0, 0),
		leases: newLeases()}
	w.policy.Max = w.policy.Min + rapid.IntRange(0, 2).Draw(t, "more")
	for range w.policy.Servers {
		w.servers = append(w.servers, &server{declared: map[uint32]bool{}})
	}
	for range w.policy.Max {
		w.next++
		w.trainers = append(w.trainers, &trainer{incarnation: w.next})
	}
	w.restart()
	return w
}

// restart replaces the coordinator by another, which knows what is durable.
func (w *world) restart() {
	w.fence++
	w.machine = generation.New(w.policy, w.durable)
	w.leases.watch(w.policy.Max)
	for _, tr := range w.trainers {
		tr.waits = false // its call has failed
	}
	w.step(generation.Wanted{Trainers: w.policy.Max})
	w.step(generation.Start{})
	for _, m := range w.durable.Members {
		if !w.leases.lives(m.Rank, m.Incarnation) {
			w.step(generation.Lost{Rank: m.Rank, Incarnation: m.Incarnation})
		}
	}
}

// note checks that all servers make a round of the same contributions.
func (w *world) note(s *server) {
	made := fmt.Sprint(s.applied)
	if was, ok := w.history[s.round]; ok && was != made || len(s.applied) == 0 {
		w.t.Fatalf("round %d is made of %s and of %s", s.round-1, was, made)
	}
	w.history[s.round] = made
}

// declare lets a member send its barrier for its round to one server.
func (w *world) declare(rank uint32, s *server) {
	tr := w.trainers[rank]
	if tr.member && w.least() > tr.round {
		tr.round++
	}
	if !tr.member || s.frozen >= tr.last || s.generation != tr.last || s.round != tr.round {
		return
	}
	s.declared[rank] = true
	if len(s.declared) == len(s.members) {
		s.apply(s.members)
		w.note(s)
	}
}

// join lets a trainer whose generation has ended, or that has none, wait for the next, and takes the answer when there is one.
func (w *world) join(rank uint32) {
	tr := w.trainers[rank]
	ended := slices.ContainsFunc(w.servers, func(s *server) bool { return s.frozen >= tr.last })
	if tr.member && !ended {
		return
	}
	tr.member = false
	tr.claimed = tr.claimed || w.leases.claim(rank, tr.incarnation)
	if tr.claimed && !tr.waits {
		tr.waits = true
		w.ask(generation.Joined{Rank: rank, Incarnation: tr.incarnation, Last: tr.last})
	}
	if g, ok := w.machine.Answer(rank, tr.incarnation, tr.last); ok {
		tr.member, tr.waits, tr.last, tr.round = true, false, g.Number, g.Round
	}
}

// ask sends the word of a trainer that waits for a generation. It may arrive when the trainer is gone.
func (w *world) ask(e generation.Joined) {
	w.pending = append(w.pending, func() {
		w.shell().join(e, func() bool { return true }, func(taken bool) {
			if !taken && w.leases.lives(e.Rank, e.Incarnation) {
				w.t.Fatalf("%+v is refused, and lives", e)
			}
		})
	})
}

// crash ends a trainer, whose supervisor starts it again.
func (w *world) crash(rank uint32) {
	w.leases.lose(rank, w.trainers[rank].incarnation)
	w.next++
	*w.trainers[rank] = trainer{incarnation: w.next}
}

// deliver takes one of what is under way.
func deliver[T any](w *world, from *[]T, take func(T)) {
	if len(*from) == 0 {
		return
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(w.t, "which")
	e := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	take(e)
}

// least is how many rounds the slowest server has applied.
func (w *world) least() uint64 {
	return slices.MinFunc(w.servers, func(a, b *server) int { return cmp.Compare(a.round, b.round) }).round
}
