package generation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/coordinator/generation"
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
	rank := uint32(w.chance.IntN(len(w.seats)))
	switch n := w.chance.IntN(60); {
	case n == 0:
		w.lose(rank)
	case n == 1:
		w.restart()
	case n == 2:
		w.now = w.now.Add(time.Duration(w.chance.IntN(100)) * time.Second)
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
	phase := w.machine.Now()
	if phase == generation.Ended {
		if !w.ended && w.failed == nil {
			w.fail("it has ended, and nobody knows how")
		}
		return
	}
	wait, waits := w.machine.Wait()
	deadline, ok := w.machine.Deadline()
	if phase != generation.Running && !waits || waits && (!ok || deadline.After(wait.Until) || len(wait.By) == 0) {
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

// settled lets everything arrive that is under way. Then every member of a generation that trains lives: nobody would tell of the end of another.
func (w *asyncWorld) settled() {
	for len(w.pending)+len(w.leases.reports) > 0 {
		w.deliver()
	}
	for _, m := range w.machine.Generation().Members {
		if w.machine.Now() == generation.Running && !w.machine.Left(m.Rank) && !w.leases.lives(m.Rank, m.Incarnation) {
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
		if p.since == 0 && !p.waits && p.incarnation > uint64(len(w.seats)) && w.durable.Settled > 0 && w.chance.IntN(2) == 0 {
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
