package generation_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

// Whatever is lost, late or repeated: no number is given to two generations, no server hears of one that is not durable, every round is made of the
// same contributions on all servers, and when it is calm again everybody who lives trains.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			rank := uint32(rapid.IntRange(0, len(w.trainers)-1).Draw(t, "rank"))
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				w.crash(rank)
			case 1:
				w.restart()
			case 2:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second)
				w.step(generation.Tick{})
			case 3:
				w.step(generation.Wanted{Trainers: rapid.IntRange(0, 6).Draw(t, "wanted")})
			case 4:
				w.step(generation.Change{})
			case 5:
				deliver(w, &w.leases.reports, func(rank uint32) { w.shell().lost(rank) })
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
	if w.failed != nil || w.machine.Now() == generation.Ended {
		return
	}
	deadline, ok := w.machine.Deadline()
	if waits != (w.machine.Now() != generation.Running) || waits && (!ok || deadline.After(wait.Until) || len(wait.By) == 0) {
		w.t.Fatalf("in phase %v it waits for %+v until %v, %v", w.machine.Now(), wait, deadline, ok)
	}
}

// arrive lets everything arrive that is under way.
func (w *world) arrive() {
	for len(w.pending)+len(w.leases.reports) > 0 {
		deliver(w, &w.leases.reports, func(rank uint32) { w.shell().lost(rank) })
		deliver(w, &w.pending, func(f func()) { f() })
	}
}

// settled lets everything arrive. Then every member of a generation that trains lives: nobody would tell of the end of another.
func (w *world) settled() {
	w.arrive()
	for _, m := range w.machine.Generation().Members {
		if w.machine.Now() == generation.Running && !w.leases.lives(m.Rank, m.Incarnation) {
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
			w.join(uint32(rank))
		}
		for rank := range w.trainers {
			for _, s := range w.servers {
				w.declare(uint32(rank), s)
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
	w.t.Fatalf("no round since %d in phase %v of generation %d, which waits for %+v", from, w.machine.Now(), w.machine.Generation().Number, wait)
}
