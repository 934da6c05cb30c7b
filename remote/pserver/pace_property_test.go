package pserver_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// A paced is a trainer as the test knows it.
type paced struct {
	since          id.Generation
	step, number   id.Round // of its next push, and of its next message about its pace
	clock          int64
	counts         bool
	asks           bool // it has pushed, and must ask before it pushes again
	gone, complete bool
	past           []pserver.Event
}

// Trainers push, rest, are lost, come back, leave, and repeat old messages. None goes on that is more than the lead ahead of another one that is counted, and
// while some wait there is always one that need not.
func TestPaceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, lead := rapid.IntRange(1, 5).Draw(t, "trainers"), int64(rapid.IntRange(0, 4).Draw(t, "lead"))
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		u := pserver.NewUpdates(n, []string{"a"})
		must(t, u, first(n))
		all := make([]paced, n)
		for i := range all {
			all[i].since = 1
		}
		generation := id.Generation(1)
		resume := func() {
			generation++
			e := pserver.Resumed{Generation: generation}
			for rank, m := range all {
				if !m.gone {
					e.Members = append(e.Members, pserver.Member{Rank: id.Rank(rank), Since: m.since, Leader: id.Rank(rank)})
				}
			}
			must(t, u, e)
		}
		behind := func(own int64) (far bool, lowest int64) { // of those that are counted
			lowest = own
			found := false
			for _, o := range all {
				if o.counts && (!found || o.clock < lowest) {
					lowest, found = o.clock, true
				}
			}
			return own-lowest > lead, lowest
		}
		for range 200 {
			rank := chance.IntN(n)
			m := &all[rank]
			from := pserver.Sender{Rank: id.Rank(rank), Generation: m.since, Round: m.number}
			action := chance.IntN(30)
			if m.complete {
				continue
			}
			switch {
			case m.gone:
				*m = paced{since: generation + 1}
				resume()
			case action == 0:
				*m = paced{gone: true}
				resume()
			case action == 1:
				if len(m.past) > 1 {
					before := m.past[chance.IntN(len(m.past)-1)]
					if _, err := u.Step(0, before); err == nil {
						t.Fatalf("%+v again after %d messages", before, len(m.past))
					}
				}
			case action == 2 && m.counts && !m.asks:
				e := pserver.Paced{Sender: from, Lead: lead, Rests: true}
				must(t, u, e)
				m.number, m.counts, m.past = m.number+1, false, append(m.past, e)
			case action == 3 && !m.asks:
				must(t, u, pserver.Completed{Sender: from})
				m.complete, m.counts = true, false
			case m.counts && !m.asks:
				from.Round = m.step
				must(t, u, pserver.Declared{Sender: from})
				m.step, m.clock, m.asks = m.step+1, m.clock+1, true
			default:
				if !m.counts {
					_, m.clock = behind(m.clock)
					m.counts = true
				}
				e := pserver.Paced{Sender: from, Lead: lead}
				f, err := u.Step(0, e)
				if far, _ := behind(m.clock); err != nil || f.Hold != far {
					t.Fatalf("trainer %d at %d of %+v: %s", rank, m.clock, all, show(f, err))
				}
				if !f.Hold {
					m.asks, m.number, m.past = false, m.number+1, append(m.past, e)
				}
			}
			free, waiting := false, false
			for rank := range all {
				o := &all[rank]
				if o.gone || o.complete {
					continue
				}
				far, _ := behind(o.clock)
				waiting = waiting || o.asks && far
				free = free || !o.asks || !far
			}
			if waiting && !free {
				t.Fatalf("all wait: %+v", all)
			}
		}
	})
}
