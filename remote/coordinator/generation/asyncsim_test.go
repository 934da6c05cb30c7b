package generation_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
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
	begun   map[id.Generation]string // generation to members, as made durable
	servers []*asyncServer
	seats   []*process // the process of each rank that its supervisor has started last
	zombies []*process // that were given up and live on
	now     time.Duration
	next    id.Incarnation // incarnation
	leases  leases
	losses  int      // processes that ended in the middle of something, or were believed to have
	pending []func() // what is under way, in any order
	tasks   []*task
	given   map[id.Incarnation]bool // processes whose tasks were given back: nothing of them may be applied any more
	ended   bool
	failed  error
}

// A task is records that one process is to train.
type task struct {
	records []int
	holder  *process      // nil: nobody
	since   id.Generation // of the holder
	done    bool
}

func newAsyncWorld(t *testing.T, seed uint64) *asyncWorld {
	w := &asyncWorld{t: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 5)), begun: map[id.Generation]string{},
		given: map[id.Incarnation]bool{}, leases: newLeases()}
	w.policy = generation.Policy{Servers: 1 + w.chance.IntN(3), Min: 1 + w.chance.IntN(3), RejoinDeadline: time.Minute, StartDeadline: time.Hour}
	w.policy.Max = w.policy.Min + w.chance.IntN(3)
	for range w.policy.Servers {
		w.servers = append(w.servers, &asyncServer{members: map[id.Rank]*stepper{}, applied: map[int]int{}, ledger: map[int]int{}})
	}
	for rank := range w.policy.Max {
		w.seats = append(w.seats, nil)
		w.seat(id.Rank(rank))
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
	w.step(generation.Began{})
	for _, m := range w.durable.Members {
		if !w.leases.lives(m.Rank, m.Incarnation) {
			w.step(generation.Lost{Rank: m.Rank, Incarnation: m.Incarnation})
		}
	}
}

// step lets the coordinator carry out what follows from an event. It reports whether that was not refused.
func (w *asyncWorld) step(e generation.Event) bool {
	out, err := w.machine.Step(w.now, e)
	switch {
	case err != nil:
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

// process is a model of a trainer process of an async job.
type process struct {
	rank        id.Rank
	incarnation id.Incarnation
	claimed     bool // it has taken the key of its rank
	waits       bool
	since       id.Generation // 0: it is no member
	lost        bool          // the coordinator is told so, whether it lives or not
	over        bool          // it does nothing any more
	drained     bool          // it has given up its calls, and taken leave
	step        uint64        // from 1
	turns       int           // how often it has gone on to something else
	batch       int           // record, -1 for none
	acked       []bool        // by server, of the batch or of its Complete
	task        *task
	completing  bool
	left        bool
}

// seat starts a process of a rank.
func (w *asyncWorld) seat(rank id.Rank) {
	w.next++
	w.seats[rank] = &process{rank: rank, incarnation: w.next, batch: -1, acked: make([]bool, len(w.servers))}
}

// lose ends a process, or freezes it so long that it is believed to have ended. Its supervisor starts another.
func (w *asyncWorld) lose(rank id.Rank) {
	p := w.seats[rank]
	if p.left {
		return
	}
	p.lost, p.over = true, !p.claimed || w.chance.IntN(2) == 0
	if !p.over {
		w.zombies = append(w.zombies, p)
	}
	w.losses++
	w.leases.lose(rank, p.incarnation)
	w.seat(rank)
}

// drain lets a process end in order between two batches, or while it waits to become a member.
func (w *asyncWorld) drain(rank id.Rank) {
	p := w.seats[rank]
	member, ok := w.machine.Generation().Member(rank)
	if p.batch >= 0 || p.completing || p.over || !p.claimed || p.since > 0 && (!ok || member.Since != p.since) {
		return
	}
	p.over, p.drained = true, true
	w.step(generation.Drained{Rank: rank})
	w.leases.release(rank, p.incarnation)
	w.seat(rank)
}

// act lets a process do the next thing.
func (w *asyncWorld) act(p *process) {
	switch {
	case p.over || p.left:
	case p.since == 0:
		w.join(p)
	case p.completing && !slices.Contains(p.acked, false):
		w.leave(p)
	case p.completing:
		w.tellServers(p, func(_ *asyncServer, m *stepper) { m.complete = true })
	case p.batch < 0:
		w.take(p)
	case slices.Contains(p.acked, false):
		w.tellServers(p, func(s *asyncServer, m *stepper) { w.apply(p, s, m) })
	default:
		step, record := p.step, p.batch
		w.send(p, 0, func(s *asyncServer, m *stepper) {
			if m.entered < step {
				m.entered = step
				s.ledger[record]++
			}
		}, func() { w.trained(p) })
	}
}

func (w *asyncWorld) join(p *process) {
	p.claimed = p.claimed || w.leases.claim(p.rank, p.incarnation)
	if !p.claimed {
		return
	}
	if w.machine.Left(p.rank) {
		p.over = true // it has nothing to do
		w.leases.release(p.rank, p.incarnation)
		return
	}
	if !p.waits {
		p.waits = true
		for range 1 + w.chance.IntN(2) {
			w.pending = append(w.pending, func() {
				w.shell().join(generation.Joined{Rank: p.rank, Incarnation: p.incarnation}, func() bool { return !p.drained }, func(taken bool) {
					if !taken {
						w.expelled(p, "the coordinator")
					}
				})
			})
		}
	}
	if g, ok := w.machine.Answer(p.rank, p.incarnation, 0); ok {
		m, _ := g.Member(p.rank)
		w.step(generation.Answered{Rank: p.rank})
		p.waits, p.since = false, m.Since
	}
}

// isMember reports whether the coordinator takes the word of a process. A process that it has given up ends, and is started again if it was not already.
func (w *asyncWorld) isMember(p *process) bool {
	m, ok := w.machine.Generation().Member(p.rank)
	if ok && m.Since == p.since {
		return true
	}
	w.expelled(p, "the coordinator")
	return false
}

// expelled ends a process that was told that it is no member. Nobody who lives is, but those of whom it is known that they have done all their work.
func (w *asyncWorld) expelled(p *process, by string) {
	if p.over {
		return
	}
	if !p.lost && !(p.completing && w.machine.Left(p.rank)) {
		w.fail("%s expels %+v, which lives", by, *p)
	}
	p.over = true
	w.leases.release(p.rank, p.incarnation)
}

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

// settle gives back the tasks of processes that are no members, without the records that are in the ledger.
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
	fence             uint64
	generation, ended id.Generation
	members           map[id.Rank]*stepper
	applied, ledger   map[int]int // by record
}

// stepper is a member as a server sees it.
type stepper struct {
	since         id.Generation
	step, entered uint64
	complete      bool
}

func (s *asyncServer) state() *rpc.FreezeResponse {
	a := &rpc.FreezeResponse{Generation: uint64(s.generation)}
	for _, rank := range slices.Sorted(maps.Keys(s.members)) {
		if s.members[rank].complete {
			a.Completed = append(a.Completed, uint32(rank))
		}
	}
	return a
}

func (s *asyncServer) resume(g generation.Generation) {
	if g.Number <= max(s.generation, s.ended) {
		return
	}
	members := map[id.Rank]*stepper{}
	for _, m := range g.Members {
		if members[m.Rank] = s.members[m.Rank]; members[m.Rank] == nil || members[m.Rank].since != m.Since {
			members[m.Rank] = &stepper{since: m.Since}
		}
	}
	s.generation, s.members = g.Number, members
}

// shell takes what the registry and trainers say to the coordinator that there is now.
func (w *asyncWorld) shell() shell {
	fence := w.fence
	return shell{&w.leases, w.machine, w.step, func(f func()) {
		w.pending = append(w.pending, func() {
			if fence == w.fence {
				f()
			}
		})
	}}
}

// later lets an effect on the store happen, unless another coordinator has the lock by then; this one may crash before it knows.
func (w *asyncWorld) later(effect func() generation.Event) {
	fence, done := w.fence, false
	w.pending = append(w.pending, func() {
		if fence != w.fence || done {
			return
		}
		done = true
		if e := effect(); w.chance.IntN(12) > 0 {
			w.step(e)
		} else {
			w.restart()
		}
	})
}

// toServers lets an effect happen on all servers. Each may hear of it twice, also when another coordinator has followed this one.
func (w *asyncWorld) toServers(effect func(i int, s *asyncServer) generation.Event) {
	fence := w.fence
	for i, s := range w.servers {
		for range 1 + w.chance.IntN(2) {
			w.pending = append(w.pending, func() {
				if fence < s.fence {
					return
				}
				s.fence = fence
				if e := effect(i, s); fence == w.fence {
					w.step(e)
				}
			})
		}
	}
}
