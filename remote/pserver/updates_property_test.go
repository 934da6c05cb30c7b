package pserver_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// In an async job every contribution counts once. The learning-rate block runs once for every step of a trainer, with its first contribution. The end
// comes when all have completed and nothing is left to apply.
func TestUpdatesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b"}
		n := rapid.IntRange(1, 3).Draw(t, "trainers")
		u := pserver.NewUpdates(n, names)
		must(t, u, first(n))
		type trainer struct {
			step, steps id.Round
			sent        int
			begun       bool
			complete    bool
		}
		trainers := make([]trainer, n)
		for i := range trainers {
			trainers[i].step = id.Round(rapid.SampledFrom([]uint64{0, 41}).Draw(t, "start"))
			trainers[i].steps = trainers[i].step + id.Round(rapid.Uint64Range(0, 4).Draw(t, "steps"))
		}
		var past []pserver.Event
		var queued []id.Rank
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
				if f, err := u.Step(0, e); err == nil && !reflect.DeepEqual(f, pserver.Effects{Ignore: true}) {
					t.Fatalf("%+v again: %s", e, show(f, err))
				}
			case 1: // something is applied
				if len(queued) == 0 {
					continue
				}
				e := pserver.Applied{Rank: queued[0]}
				queued = queued[1:]
				pending[e.Rank]--
				finished = must(t, u, e).Finished
			default:
				if m.complete {
					continue
				}
				from := pserver.Sender{Rank: id.Rank(rank), Generation: 1, Round: m.step}
				if m.step == m.steps {
					m.complete = true
					e := pserver.Completed{Sender: from}
					finished = must(t, u, e).Finished
					past = append(past, e)
					break
				}
				e := pserver.Received{Sender: from, Variable: names[m.sent]}
				if f := must(t, u, e); f.LearningRate == m.begun || f.Finished {
					t.Fatalf("%+v: %+v", e, f)
				}
				m.begun = true
				past, queued = append(past, e), append(queued, e.Rank)
				pending[rank]++
				if m.sent++; m.sent == len(names) {
					m.step, m.sent, m.begun = m.step+1, 0, false
				}
			}
			all := len(queued) == 0
			for rank := range trainers {
				all = all && trainers[rank].complete
				f, err := u.Step(0, pserver.Read{Sender: pserver.Sender{Rank: id.Rank(rank), Generation: 1}})
				if err != nil || f.Hold != (pending[rank] > 0) {
					t.Fatalf("trainer %d with %d pending reads: %s", rank, pending[rank], show(f, err))
				}
			}
			if finished != all {
				t.Fatalf("finished: %v, want %v", finished, all)
			}
		}
	})
}
