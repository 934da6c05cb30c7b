package generation_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
)

// Whatever is lost, late or repeated: no number is given to two generations, no server hears of one that is not durable, every round is made of the
// same contributions on all servers, and when it is calm again everybody who lives trains.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			rank := id.Rank(rapid.IntRange(0, len(w.trainers)-1).Draw(t, "rank"))
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				w.crash(rank)
			case 1:
				w.restart()
			case 2:
				w.now += time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second
				w.step(generation.Tick{})
			case 3:
				w.step(generation.Wanted{Trainers: rapid.IntRange(0, 6).Draw(t, "wanted")})
			case 4:
				w.step(generation.DataFailed{})
			case 5:
				deliver(w, &w.leases.reports, func(rank id.Rank) { w.shell().lost(rank) })
			case 6, 7, 8, 9:
				w.join(rank)
			case 10, 11, 12, 13, 14:
				w.declare(rank, w.servers[rapid.IntRange(0, len(w.servers)-1).Draw(t, "server")])
			default:
				deliver(w, &w.pending, func(f func()) { f() })
			}
			w.check()
			if w.failed != nil {
				return
			}
		}
		w.calm()
	})
}

// check says that a machine which waits does not do so for ever.
func (w *world) check() {
	wait, waits := w.machine.Wait()
	if w.failed != nil || w.machine.Phase() == generation.Ended {
		return
	}
	deadline, ok := w.machine.Next()
	if waits != (w.machine.Phase() != generation.Running) || waits && (!ok || deadline > wait.Until || len(wait.By) == 0) {
		w.t.Fatalf("in phase %v it waits for %+v until %v, %v", w.machine.Phase(), wait, deadline, ok)
	}
}

// arrive lets everything arrive that is under way.
func (w *world) arrive() {
	for len(w.pending)+len(w.leases.reports) > 0 {
		deliver(w, &w.leases.reports, func(rank id.Rank) { w.shell().lost(rank) })
		deliver(w, &w.pending, func(f func()) { f() })
	}
}

// settled lets everything arrive. Then every member of a generation that trains lives: the end of a member that does not would never be told.
func (w *world) settled() {
	w.arrive()
	for _, m := range w.machine.Generation().Members {
		if w.machine.Phase() == generation.Running && !w.leases.lives(m.Rank, m.Incarnation) {
			w.t.Fatalf("%+v does not live and stays a member", m)
		}
	}
}

// calm lets everything arrive, and sees rounds go on.
func (w *world) calm() {
	w.step(generation.Wanted{Trainers: w.policy.Max})
	from := w.least()
	w.settled()
	for range 400 {
		w.arrive()
		for rank := range w.trainers {
			w.join(id.Rank(rank))
		}
		for rank := range w.trainers {
			for _, s := range w.servers {
				w.declare(id.Rank(rank), s)
			}
		}
		if w.failed != nil {
			w.t.Fatalf("failed when it was calm: %v", w.failed)
		}
		if w.least() > from+3 {
			for rank, tr := range w.trainers {
				if !tr.member || tr.last != w.machine.Generation().Number {
					w.t.Fatalf("trainer %d does not train in generation %d: %+v", rank, w.machine.Generation().Number, *tr)
				}
			}
			return
		}
	}
	wait, _ := w.machine.Wait()
	w.t.Fatalf("no round since %d in phase %v of generation %d, which waits for %+v", from, w.machine.Phase(), w.machine.Generation().Number, wait)
}

// server is a model of a pserver that keeps the rules of rounds: it applies a round when it holds the barrier of every member of its generation.
type server struct {
	fence      uint64
	generation id.Generation
	round      id.Round
	frozen     id.Generation // generations up to this one have ended
	members    []id.Rank
	declared   map[id.Rank]bool
	applied    []id.Rank // what the last round was made of
}

func (s *server) apply(members []id.Rank) {
	s.applied, s.declared = slices.Sorted(slices.Values(members)), map[id.Rank]bool{}
	s.round++
}

// trainer is a model of a trainer process.
type trainer struct {
	incarnation            id.Incarnation
	last                   id.Generation
	round                  id.Round
	claimed, member, waits bool
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
	now      time.Duration
	next     id.Incarnation // incarnation
	leases   leases
	pending  []func()                 // what is under way, in any order
	begun    map[id.Generation]string // generation to members, as made durable
	history  map[id.Round]string      // round to what it is made of
	failed   error                    // why the job ended
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, policy: generation.Policy{Sync: true, Servers: rapid.IntRange(1, 3).Draw(t, "servers"), Min: rapid.IntRange(1, 3).Draw(t, "min"),
		RejoinDeadline: time.Minute, StartDeadline: time.Hour}, begun: map[id.Generation]string{}, history: map[id.Round]string{},
		leases: newLeases()}
	w.policy.Start = id.Round(rapid.SampledFrom([]int{0, 0, 1, 41}).Draw(t, "first"))
	w.policy.Max = w.policy.Min + rapid.IntRange(0, 2).Draw(t, "more")
	for range w.policy.Servers {
		w.servers = append(w.servers, &server{declared: map[id.Rank]bool{}, round: w.policy.Start})
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
	w.step(generation.Began{})
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
func (w *world) declare(rank id.Rank, s *server) {
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
func (w *world) join(rank id.Rank) {
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
		w.step(generation.Answered{Rank: rank})
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
func (w *world) crash(rank id.Rank) {
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
func (w *world) least() id.Round {
	return slices.MinFunc(w.servers, func(a, b *server) int { return cmp.Compare(a.round, b.round) }).round
}

// leases is a model of the registry, and of what a coordinator asks it.
type leases struct {
	live    map[id.Rank]id.Incarnation // by rank: the process that holds its key
	joined  map[id.Rank]bool           // ranks whose key was taken, and whose process has not left in order since
	reports []id.Rank                  // ranks of losses that the coordinator has yet to hear of
	heard   map[id.Rank]int            // losses of each rank that this coordinator has heard of
}

func newLeases() leases {
	return leases{live: map[id.Rank]id.Incarnation{}, joined: map[id.Rank]bool{}}
}

// watch begins to report to another coordinator: first those who are lost now.
func (l *leases) watch(ranks int) {
	l.reports, l.heard = nil, map[id.Rank]int{}
	for rank := range id.Rank(ranks) {
		if l.joined[rank] && l.live[rank] == 0 {
			l.reports = append(l.reports, rank)
		}
	}
}

func (l *leases) lives(rank id.Rank, incarnation id.Incarnation) bool {
	return l.live[rank] == incarnation
}

// claim takes the key of a rank for a process, if nobody holds it.
func (l *leases) claim(rank id.Rank, incarnation id.Incarnation) bool {
	if l.live[rank] != 0 {
		return false
	}
	l.live[rank], l.joined[rank] = incarnation, true
	return true
}

func (l *leases) lose(rank id.Rank, incarnation id.Incarnation) {
	if l.lives(rank, incarnation) {
		delete(l.live, rank)
		l.reports = append(l.reports, rank)
	}
}

// release gives the key up in order.
func (l *leases) release(rank id.Rank, incarnation id.Incarnation) {
	if l.lives(rank, incarnation) {
		delete(l.live, rank)
		delete(l.joined, rank)
	}
}

// A shell is what a coordinator does with words of the registry and of trainers. later lets something happen after a while, unless another
// coordinator has followed by then.
type shell struct {
	*leases
	machine *generation.Machine
	step    func(generation.Event) bool
	later   func(func())
}

// lost takes a report that the lease of some process of a rank has ended.
func (s shell) lost(rank id.Rank) {
	s.heard[rank]++
	known := s.machine.Incarnations(rank)
	s.later(func() {
		for _, incarnation := range known {
			if !s.lives(rank, incarnation) {
				s.step(generation.Lost{Rank: rank, Incarnation: incarnation})
			}
		}
	})
}

// join takes the word of a process that waits for a generation, unless waits says that it has stopped waiting. done hears whether the word was taken.
// Of a process that is known already its loss will be told. Of another the registry is asked, and again when a loss was told meanwhile, which may
// have been its own.
func (s shell) join(e generation.Joined, waits func() bool, done func(bool)) {
	take := func() {
		if waits() {
			done(s.step(e))
		}
	}
	if slices.Contains(s.machine.Incarnations(e.Rank), e.Incarnation) {
		take()
		return
	}
	heard := s.heard[e.Rank]
	s.later(func() {
		lives := s.lives(e.Rank, e.Incarnation)
		s.later(func() {
			switch {
			case !lives:
				done(false)
			case heard != s.heard[e.Rank]:
				s.join(e, waits, done)
			default:
				take()
			}
		})
	})
}
