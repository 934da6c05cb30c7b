package pserver

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// A pace bounds how far a trainer of an async job is ahead of the others: stale synchronous parallel training (Ho et al. 2013), whose clocks are pushes
// here. Server 0 keeps it, because its ledger has a push when all servers have applied it.
//
//	trainer                                server 0
//	push, which all servers apply   --->   ledger: the clock of the trainer rises by 1
//	ask, with the bound             --->   waits while a trainer that trains is more than the bound behind
//	pull                            <---   goes on: so it receives every push that the bound asks for
//
// A trainer is counted from its first ask on, until it rests, leaves or is lost: a trainer without a task holds up nobody. It begins at the lowest clock of
// those that are counted, because nobody has to catch up with what was trained without it.
type pace struct {
	clocks map[id.Rank]*clock // by rank; those that have never asked are left out
}

// A clock is how far a trainer is.
type clock struct {
	since  id.Generation // of the process that it belongs to
	counts bool          // the trainer trains
	pushes int64         // in the ledger, and those that it began with
	told   id.Round      // the first message that has not come: earlier ones are stale
}

// Paced is a message about the pace of an async job. The Round of its Sender numbers these messages of a process; the same number again is the same message.
type Paced struct {
	Sender
	Lead  int64 // how many pushes the trainer may be ahead
	Rests bool  // the trainer is not counted until it asks; else it asks to go on
}

// step takes a message of a member. It is held while the trainer is too far ahead.
func (p *pace) step(e Paced, since id.Generation) (Effects, error) {
	if e.Lead < 0 {
		return Effects{}, fault.E(fault.InvalidArgument, fault.Gotf("a bound of %d pushes", e.Lead), fault.Want("0 or more"))
	}
	c := p.clocks[e.Rank]
	if c == nil || c.since != since {
		if p.clocks == nil {
			p.clocks = map[id.Rank]*clock{}
		}
		c = &clock{since: since}
		p.clocks[e.Rank] = c
	}
	if e.Round+1 < c.told {
		return Effects{}, fault.E(fault.Stale, fault.Gotf("message %d of trainer %d about its pace", e.Round, e.Rank), fault.Wantf("message %d or later", c.told-1))
	}
	c.told = e.Round + 1
	if e.Rests {
		c.counts = false
		return Effects{}, nil
	}
	if !c.counts {
		c.pushes, c.counts = p.lowest(c.pushes), true
	}
	return holdUnless(len(p.behind(e)) == 0), nil
}

// lowest is the lowest clock of those that are counted, own where none is.
func (p *pace) lowest(own int64) int64 {
	found := false
	for _, c := range p.clocks {
		if c.counts && (!found || c.pushes < own) {
			own, found = c.pushes, true
		}
	}
	return own
}

// pushed notes that a push is in the ledger.
func (p *pace) pushed(rank id.Rank) {
	if c := p.clocks[rank]; c != nil {
		c.pushes++
	}
}

// leave forgets a trainer.
func (p *pace) leave(rank id.Rank) { delete(p.clocks, rank) }

// behind returns, in rank order, the trainers that a message waits for.
func (p *pace) behind(e Paced) (ranks []id.Rank) {
	own := p.clocks[e.Rank]
	if own == nil {
		return nil
	}
	for rank, c := range p.clocks {
		if c.counts && own.pushes-c.pushes > e.Lead {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// forPace is the wait of a trainer that is too far ahead.
func forPace(c *core, e Paced) waits.Wait {
	return waits.Wait{Who: c.name, Limit: c.cfg.RoundDeadline, Tell: func(w *waits.Wait) {
		p := &c.updates.pace
		ranks, most := p.behind(e), int64(0)
		for _, rank := range ranks {
			most = max(most, p.clocks[e.Rank].pushes-p.clocks[rank].pushes)
		}
		w.What = fmt.Sprintf("a push, because trainer %d is %d pushes ahead, and may be %d", e.Rank, most, e.Lead)
		c.heard.name(w, ranks)
	}}
}

// pacer answers trainers that ask to go on.
type pacer struct{ core *core }

// Pace implements the rpc. It answers an ask when the trainer may go on.
func (p pacer) Pace(ctx context.Context, m *rpc.PaceRequest) (*rpc.PaceResponse, error) {
	c := p.core
	if err := c.cfg.Identity.Check(m.Id); err != nil {
		return nil, c.refuse(err)
	}
	if err := c.serves(ctx); err != nil {
		return nil, err
	}
	if c.updates == nil || c.cfg.Index != 0 {
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a message about the pace of trainers"),
			fault.Want("one to pserver 0 of an async job")))
	}
	c.Lock()
	c.heard.note(id.Rank(m.Id.Rank))
	c.Unlock()
	_, err := c.decide(ctx, Paced{Sender: Sender(wire.SenderOf(m.Id)), Lead: int64(m.Lead), Rests: m.Rests})
	if f, ok := err.(*fault.Fault); ok && f.Kind == fault.DeadlineExceeded {
		f.Kind, f.Want, f.Hint = fault.LostMember, "their pushes", "look at that trainer's log, raise round_deadline, or drop staleness"
	}
	if err == nil {
		err = asyncMirror{c.mirror}.paced(ctx, id.Rank(m.Id.Rank))
	}
	if err != nil {
		return nil, err
	}
	return &rpc.PaceResponse{}, nil
}
