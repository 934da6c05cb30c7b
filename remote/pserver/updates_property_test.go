package pserver_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/remote/pserver"
)

// In an async job every contribution counts once, every step of a trainer ticks once, before anything else of that step counts, and the end
// comes when all have completed and nothing is left to apply.
func TestUpdatesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b"}
		n := rapid.IntRange(1, 3).Draw(t, "trainers")
		u := pserver.NewUpdates(n, names)
		u.Step(first(n))
		type stepper struct {
			step, steps uint64
			sent        int
			ticked      bool
			complete    bool
		}
		trainers := make([]stepper, n)
		for i := range trainers {
			trainers[i].steps = rapid.Uint64Range(0, 4).Draw(t, "steps")
		}
		var past, queued []pserver.Event
		pending := make([]int, n)
		for finished := false; !finished; {
			rank := rapid.IntRange(0, n-1).Draw(t, "rank")
			m := &trainers[rank]
			switch rapid.IntRange(0, 3).Draw(t, "action") {
			case 0: // something arrives once more
				if len(past) == 0 {
					continue
				}
				e := rapid.SampledFrom(past).Draw(t, "past")
				if a := u.Step(e); a.Verdict == pserver.Take || a.Tick || a.Finished {
					t.Fatalf("%+v again: %+v", e, a)
				}
			case 1: // something is applied
				if len(queued) == 0 {
					continue
				}
				e := queued[0]
				queued = queued[1:]
				pending[e.Rank]--
				finished = u.Step(pserver.Event{Kind: pserver.Applied, Rank: e.Rank, Variable: e.Variable}).Finished
			default:
				if m.complete {
					continue
				}
				if m.step == m.steps {
					m.complete = true
					e := pserver.Event{Kind: pserver.Complete, Generation: 1, Rank: rank}
					finished = u.Step(e).Finished
					past = append(past, e)
					break
				}
				e := pserver.Event{Kind: pserver.Deliver, Generation: 1, Rank: rank, Round: m.step, Variable: names[m.sent]}
				a := u.Step(e)
				if a.Verdict != pserver.Take || a.Tick == m.ticked || a.Finished {
					t.Fatalf("%+v: %+v", e, a)
				}
				m.ticked = true
				past, queued = append(past, e), append(queued, e)
				pending[rank]++
				if m.sent++; m.sent == len(names) {
					m.step, m.sent, m.ticked = m.step+1, 0, false
				}
			}
			all := len(queued) == 0
			for rank := range trainers {
				all = all && trainers[rank].complete
				read := u.Step(pserver.Event{Kind: pserver.Read, Generation: 1, Rank: rank})
				if (read.Verdict == pserver.Hold) != (pending[rank] > 0) {
					t.Fatalf("trainer %d with %d pending reads: %+v", rank, pending[rank], read)
				}
			}
			if finished != all {
				t.Fatalf("finished: %v, want %v", finished, all)
			}
		}
	})
}
