package generation_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
)

// asyncHistories is how many TestAsyncHistories tries, an eighth of them with -short.
const asyncHistories = 4000

// Whatever is lost, late, repeated or out of order, and wherever coordinators crash: every record of an async job is in the ledger once; a server
// applies it again at most once for each process that was lost, and nothing of a process whose tasks were given back; whoever lives stays a member;
// and every history ends, or says for whom it waits.
func TestAsyncHistories(t *testing.T) {
	histories := asyncHistories
	if testing.Short() {
		histories /= 8
	}
	for seed := range uint64(histories) {
		w := newAsyncWorld(t, seed)
		for range w.chance.IntN(200) {
			w.happen()
			w.check()
		}
		w.calm()
	}
}

// happen lets chance choose.
func (w *asyncWorld) happen() {
	rank := id.Rank(w.chance.IntN(len(w.seats)))
	switch n := w.chance.IntN(60); {
	case n == 0:
		w.lose(rank)
	case n == 1:
		w.restart()
	case n == 2:
		w.now += time.Duration(w.chance.IntN(100)) * time.Second
		w.step(generation.Tick{})
	case n == 3:
		w.step(generation.Wanted{Trainers: w.chance.IntN(w.policy.Max + 2)})
	case n == 4:
		w.drain(rank)
	case n == 5 && len(w.pending) > 0:
		w.pending = append(w.pending, w.pending[w.chance.IntN(len(w.pending))])
	case n < 10 && len(w.zombies) > 0:
		w.act(w.zombies[w.chance.IntN(len(w.zombies))])
	case n < 40:
		w.act(w.seats[rank])
	default:
		w.deliver()
	}
}

// check says that a machine which waits does not do so for ever, and names for whom.
func (w *asyncWorld) check() {
	if w.failed != nil && !errors.Is(w.failed, fault.DeadlineExceeded) {
		w.fail("the job fails: %v", w.failed)
	}
	phase := w.machine.Phase()
	if phase == generation.Ended {
		if !w.ended && w.failed == nil {
			w.fail("it has ended, and nobody knows how")
		}
		return
	}
	wait, waits := w.machine.Wait()
	deadline, ok := w.machine.Next()
	if phase != generation.Running && !waits || waits && (!ok || deadline > wait.Until || len(wait.By) == 0) {
		w.fail("in phase %v it waits for %+v until %v, %v", phase, wait, deadline, ok)
	}
	if n := len(w.machine.Generation().Members); phase == generation.Running && n < w.policy.Min && !w.machine.Ending() && !waits {
		w.fail("%d of %d trainers are enough for it", n, w.policy.Min)
	}
	for record, n := range w.servers[0].ledger {
		if n > 1 {
			w.fail("record %d is in the ledger %d times", record, n)
		}
	}
}

// settled lets everything arrive that is under way. Then every member of a generation that trains lives: the end of a member that does not would never
// be told.
func (w *asyncWorld) settled() {
	for len(w.pending)+len(w.leases.reports) > 0 {
		w.deliver()
	}
	for _, m := range w.machine.Generation().Members {
		if w.machine.Phase() == generation.Running && !w.machine.Left(m.Rank) && !w.leases.lives(m.Rank, m.Incarnation) {
			w.fail("%+v does not live and stays a member", m)
		}
	}
}

// calm lets everything arrive and everybody work, and sees the job end. Some of those who were lost never come back, and may be what it waits for in
// the end.
func (w *asyncWorld) calm() {
	w.step(generation.Wanted{Trainers: w.policy.Max})
	away := map[*process]bool{}
	for _, p := range w.seats {
		if p.since == 0 && !p.waits && p.incarnation > id.Incarnation(len(w.seats)) && w.durable.Settled > 0 && w.chance.IntN(2) == 0 {
			away[p], p.lost, p.over = true, true, true
			w.leases.lose(p.rank, p.incarnation)
		}
	}
	w.settled()
	for range 400 {
		if w.ended || w.failed != nil {
			break
		}
		for range len(w.pending) + len(w.leases.reports) {
			w.deliver()
		}
		for _, p := range w.seats {
			w.act(p)
		}
		w.check()
	}
	w.atTheEnd(away)
}

// take asks for a record to train. When there is no more, and nobody else has any, the process is done.
func (w *asyncWorld) take(p *process) {
	if !w.isMember(p) {
		return
	}
	open := false
	for _, k := range w.tasks {
		if p.task == nil && k.holder == nil && !k.done {
			k.holder, k.since, p.task = p, p.since, k
		}
		open = open || !k.done
	}
	switch {
	case p.task != nil:
		p.step++
		p.batch = p.task.records[0]
	case !open:
		p.completing = true
	}
	p.turns++
	clear(p.acked)
}

// trained goes on after a batch that is in the ledger.
func (w *asyncWorld) trained(p *process) {
	k := p.task
	p.batch = -1
	p.turns++
	if k.holder != p { // given back meanwhile
		p.task = nil
	} else if k.records = k.records[1:]; len(k.records) == 0 {
		k.done, p.task = true, nil
	}
}

// apply takes an update on a server.
func (w *asyncWorld) apply(p *process, s *asyncServer, m *stepper) {
	if p.step <= m.step {
		return // it has it
	}
	if w.given[p.incarnation] {
		w.fail("a server applies record %d of trainer %d, process %d, whose tasks were given back", p.batch, p.rank, p.incarnation)
	}
	m.step = p.step
	s.applied[p.batch]++
}

// tellServers sends what a process has to say to a server that has not heard of it.
func (w *asyncWorld) tellServers(p *process, take func(s *asyncServer, m *stepper)) {
	i := w.chance.IntN(len(w.servers))
	if !p.acked[i] {
		w.send(p, i, take, func() { p.acked[i] = true })
	}
}

// send lets a message be under way, maybe twice, or loses it. What arrives when its process has gone on changes nothing.
func (w *asyncWorld) send(p *process, i int, take func(s *asyncServer, m *stepper), answered func()) {
	turns, s := p.turns, w.servers[i]
	var arrive func()
	arrive = func() {
		m := s.members[p.rank]
		switch {
		case turns != p.turns:
		case p.since > s.generation:
			w.pending = append(w.pending, arrive) // it has overtaken the Resume
		case m == nil || m.since != p.since:
			w.expelled(p, "a server")
		default:
			if take(s, m); !p.over && w.chance.IntN(10) > 0 {
				answered()
			}
		}
	}
	for range w.chance.IntN(3) {
		w.pending = append(w.pending, arrive)
	}
}

// leave tells the coordinator, which makes it durable.
func (w *asyncWorld) leave(p *process) {
	if w.machine.Phase() == generation.Ended || !w.isMember(p) {
		return
	}
	p.left = true
	w.leases.release(p.rank, p.incarnation)
	w.durable.Left = append(w.durable.Left, p.rank)
	w.step(generation.Left{Rank: p.rank})
}

func (w *asyncWorld) undone() (text string) {
	for _, k := range w.tasks {
		if !k.done {
			text += fmt.Sprintf("%v of %+v; ", k.records, k.holder)
		}
	}
	for _, p := range w.seats {
		text += fmt.Sprintf("%+v; ", *p)
	}
	return text
}

// atTheEnd checks what has become of the job, and of every record.
func (w *asyncWorld) atTheEnd(away map[*process]bool) {
	if w.failed != nil {
		return
	}
	if !w.ended {
		w.mustMiss(away)
		return
	}
	for _, k := range w.tasks {
		if !k.done {
			w.fail("it has ended without %v", k.records)
		}
	}
	records := len(w.servers[0].ledger)
	for i, s := range w.servers {
		applied := 0
		for record := range w.servers[0].ledger {
			if s.applied[record] == 0 {
				w.fail("server %d has never applied record %d", i, record)
			}
			applied += s.applied[record]
		}
		if applied > records+w.losses {
			w.fail("server %d has applied %d updates of %d records after %d losses", i, applied, records, w.losses)
		}
	}
}

// mustMiss checks that a job which has not ended waits for one who does not come, is not done, and is not needed by anybody who lives.
func (w *asyncWorld) mustMiss(away map[*process]bool) {
	wait, _ := w.machine.Wait()
	for _, p := range w.seats {
		missed := away[p] && w.machine.Generation().Position(p.rank) >= 0 && !w.machine.Left(p.rank)
		if !away[p] && !p.left && !p.over || missed && !slices.Contains(wait.By, fmt.Sprintf("trainer %d", p.rank)) {
			w.fail("%+v is not done in phase %v of %+v, which waits for %+v; %s", *p, w.machine.Phase(), w.machine.Generation(), wait, w.undone())
		}
	}
	done := true
	for _, m := range w.machine.Generation().Members {
		done = done && slices.ContainsFunc(w.servers, func(s *asyncServer) bool { return s.members[m.Rank] != nil && s.members[m.Rank].complete })
	}
	w.now += 2 * w.policy.StartDeadline
	if w.step(generation.Tick{}); done || w.failed == nil {
		w.fail("it waits for %+v, and all have done their work: %v", wait, done)
	}
}
