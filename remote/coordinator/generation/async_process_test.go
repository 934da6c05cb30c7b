package generation_test

import (
	"slices"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

// process is a model of a trainer process of an async job.
type process struct {
	rank        uint32
	incarnation uint64
	claimed     bool // it has taken the key of its rank
	waits       bool
	since       uint64 // 0: it is no member
	lost        bool   // the coordinator is told so, whether it lives or not
	over        bool   // it does nothing any more
	drained     bool   // it has given up its calls, and taken leave
	step        uint64 // from 1
	turns       int    // how often it has gone on to something else
	batch       int    // record, -1 for none
	acked       []bool // by server, of the batch or of its Complete
	task        *task
	completing  bool
	left        bool
}

// seat starts a process of a rank.
func (w *asyncWorld) seat(rank uint32) {
	w.next++
	w.seats[rank] = &process{rank: rank, incarnation: w.next, batch: -1, acked: make([]bool, len(w.servers))}
}

// lose ends a process, or freezes it so long that it is believed to have ended. Its supervisor starts another.
func (w *asyncWorld) lose(rank uint32) {
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
func (w *asyncWorld) drain(rank uint32) {
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
						w.deposed(p, "the coordinator")
					}
				})
			})
		}
	}
	if g, ok := w.machine.Answer(p.rank, p.incarnation, 0); ok {
		m, _ := g.Member(p.rank)
		p.waits, p.since = false, m.Since
	}
}

// isMember reports whether the coordinator takes the word of a process. One that it has given up ends, and is started again if nobody has done so.
func (w *asyncWorld) isMember(p *process) bool {
	m, ok := w.machine.Generation().Member(p.rank)
	if ok && m.Since == p.since {
		return true
	}
	w.deposed(p, "the coordinator")
	return false
}

// deposed ends a process that was told that it is no member. Nobody who lives is, but those of whom it is known that they have done all their work.
func (w *asyncWorld) deposed(p *process, by string) {
	if p.over {
		return
	}
	if !p.lost && !(p.completing && w.machine.Left(p.rank)) {
		w.fail("%s deposes %+v, which lives", by, *p)
	}
	p.over = true
	w.leases.release(p.rank, p.incarnation)
}
