package pserver

import (
	"context"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// A cut of an async job lies between two steps of each trainer. The trainers need not stop at the same time, and are told nothing:
//
//	coordinator            each server
//	  |-- Hold ---------->   holds steps that begin from now on, and tells which have begun
//	  |   the steps of each trainer that have begun anywhere are in the cut, and no other
//	  |-- Cut ----------->   lets the steps of the cut in that have not begun here. When all of them are applied, and server 0 has them in the ledger, it
//	  |                      freezes its slices, and lets trainers go on
//	  |<- the part is written, while updates keep what they change
//
// So a trainer waits at most until each other one has ended the step that it is in. A server lets go on, without a cut, when a generation begins, when the
// coordinator asks for another cut, and when the end of the steps takes longer than the round deadline.

// hold is what Updates knows of a cut.
type hold struct {
	held   bool                 // no step begins, but for those in below
	below  map[id.Rank]id.Round // by rank the first step that the cut does not have; nil: not known yet
	ledger bool                 // the steps of the cut must be in the ledger of this server
	there  bool                 // the server has exactly what the cut is to have, and freezes it
}

// What happens to a cut of an async job.
type (
	// Held says that a coordinator wants to cut the job in a generation. The answer is which steps have begun.
	Held struct {
		Generation id.Generation
		Fence      id.Fence
	}
	// Bounded says which steps the cut has. Effects.Cut follows, now or later, unless a generation begins before.
	Bounded struct {
		Below  map[id.Rank]id.Round // by rank; a rank that has begun nothing is left out
		Ledger bool                 // this server keeps the ledger
	}
	// LetGo is the server's own report: it has frozen the cut, or given it up.
	LetGo struct{}
)

func (Held) event()    {}
func (Bounded) event() {}
func (LetGo) event()   {}

// holds reports whether a step has to wait for the end of a cut.
func (u *Updates) holds(m *progress, from Sender) bool {
	return u.held && from.Round >= max(m.next, u.below[from.Rank])
}

func (u *Updates) beginHold(e Held) error {
	if err := u.checkFence(e.Fence); err != nil {
		return err
	}
	switch {
	case e.Generation != u.begun:
		return fault.E(fault.Superseded, fault.Gotf("a cut in generation %d", e.Generation), fault.Wantf("generation %d", u.begun))
	case u.there:
		return fault.E(fault.Unavailable, fault.Got("a cut while another one is frozen"), fault.Want("one after the other"))
	}
	u.held, u.below = true, nil
	return nil
}

// nextSteps returns the first step of each rank that has not begun here, and the first that is not in the ledger. Ranks of which none has are left out.
func (u *Updates) nextSteps() (begun, ledger map[id.Rank]id.Round) {
	begun, ledger = map[id.Rank]id.Round{}, map[id.Rank]id.Round{}
	for rank, m := range u.members {
		if m.next > 0 && !m.gone {
			begun[rank] = m.next
		}
		if m.committed > 0 && !m.gone {
			ledger[rank] = m.committed
		}
	}
	return begun, ledger
}

// reached reports, once, that the server has exactly what the cut is to have.
func (u *Updates) reached() bool {
	if u.below == nil || u.there {
		return false
	}
	for rank, m := range u.members {
		below, some := u.below[rank]
		switch {
		case m.unapplied() > 0:
			return false
		case m.gone || !some:
		case len(u.variables) > 0 && (!m.started || m.step+1 < below || len(m.received) < len(u.variables)), u.ledger && m.committed < below:
			return false
		}
	}
	u.there = true
	return true
}

// letGo ends a hold, unless the server freezes what it holds.
func (h *hold) letGo() {
	if !h.there {
		*h = hold{}
	}
}

// Hold implements the rpc. Cut follows.
func (s *Server) Hold(ctx context.Context, m *rpc.HoldRequest) (*rpc.HoldResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	c, from := s.core, wire.SenderOf(m.Id)
	if c.updates == nil {
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a hold of a sync job"), fault.Want("a cut at a round")))
	}
	c.Lock()
	defer c.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	if m.Over {
		if k := s.cuts.current; k != nil && k.hold == m.Hold && !c.updates.there && !k.begun {
			s.cuts.letGo(c)
		}
		return &rpc.HoldResponse{}, nil
	}
	if _, err := c.step(Held{Generation: from.Generation, Fence: from.Fence}); err != nil {
		return nil, fault.E(fault.KindOf(err), fault.At(c.Where), fault.Cause(err))
	}
	s.cuts.giveUp()
	k := &cut{hold: m.Hold, done: make(chan struct{}), cancel: func() {}, held: time.Now()}
	s.cuts.current = k
	k.late = time.AfterFunc(c.cfg.RoundDeadline, func() {
		c.Lock()
		defer c.Unlock()
		if s.cuts.current == k && !c.updates.there && !k.begun {
			k.err = fault.E(fault.DeadlineExceeded, fault.Gotf("steps that have not ended for %v, for which a cut waits", c.cfg.RoundDeadline),
				fault.Want("their end"), fault.Hint("raise round_deadline"))
			s.cuts.letGo(c)
		}
	})
	r := &rpc.HoldResponse{Steps: uint64(c.updates.steps)}
	begun, ledger := c.updates.nextSteps()
	r.Begun, r.Ledger = stepBounds(begun), stepBounds(ledger)
	return r, nil
}

func stepBounds(by map[id.Rank]id.Round) (list []*rpc.StepBound) {
	for rank, below := range by {
		list = append(list, &rpc.StepBound{Rank: uint32(rank), Below: uint64(below)})
	}
	return list
}

// bound says which steps the held cut of a request has, and its name. The lock of core is held.
func (cs *cuts) bound(c *core, m *rpc.CutRequest) (*cut, error) {
	k := cs.current
	if k == nil || k.hold != m.Hold || k.bounded && (k.name != m.Name || k.store != m.Store) {
		return nil, fault.E(fault.Superseded, fault.Got("the checkpoint "+m.Name+", for which no step is held any more"), fault.Want("another one"))
	}
	if k.bounded {
		return k, nil
	}
	k.bounded, k.name, k.store, k.bases = true, m.Name, m.Store, m.Bases
	below := map[id.Rank]id.Round{}
	for _, b := range m.Below {
		below[id.Rank(b.GetRank())] = id.Round(b.GetBelow())
	}
	f, err := c.step(Bounded{Below: below, Ledger: c.ledger != nil})
	if err == nil {
		c.carryOut(f)
		c.changed() // steps of the cut may begin
	}
	return k, err
}

// overtaken gives up a cut for which steps are held, when a generation has begun: trainers that the cut waits for may be gone. The lock of core is held.
func (cs *cuts) overtaken(c *core) {
	if k := cs.current; k != nil && !k.begun && c.updates != nil && !c.updates.held {
		cs.giveUp()
	}
}

// letGo lets trainers go on, with a cut that is frozen or without one. The lock of core is held.
func (cs *cuts) letGo(c *core) {
	switch k := cs.current; {
	case k == nil:
	case k.begun:
		k.late.Stop()
		c.cfg.Log.Info("steps were held for a checkpoint", "checkpoint", k.name, "took", time.Since(k.held))
	default:
		cs.giveUp()
	}
	_, _ = c.step(LetGo{}) // is never refused
	c.changed()
}
