package pserver

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// past is what a machine knows of the checkpoints that its job has gone back to.
type past struct {
	history uint64 // that the parameters belong to: of the last Restored, 0 before the first
	awaited uint64 // the least that they have to belong to
	// back is async: messages of generations up to this one belong to an earlier history.
	back    id.Generation
	unmoved bool // it needs the state of the servers of another placement, which a coordinator is to tell it to take
}

// Await makes the server one that was started in the place of a lost one: it has no parameters that a job could go on with before it is Restored for a
// history. Until then coordinators are told fault.Unavailable: one that does not know yet that the job goes back must not take its state for that of the job.
func (p *past) Await(history uint64) { p.awaited = history }

// checkHistory refuses a coordinator while the server lacks the state that it is to have.
func (p *past) checkHistory() error {
	if p.unmoved {
		return fault.E(fault.Unavailable, fault.Got("a server that waits for the state of the placement before"), fault.Want("the coordinator to move it"))
	}
	if p.history >= p.awaited {
		return nil
	}
	return fault.E(fault.Unavailable, fault.Gotf("a server that waits for the state of a checkpoint, with which history %d begins", p.awaited),
		fault.Want("the coordinator to restore it"))
}

// restore makes the machine that of a server whose parameters are those of a checkpoint. The round that is open, or is being applied, counts no more: all
// servers go back.
func restore(r *Rounds, e Restored) (Effects, error) {
	if err := r.freeze(Frozen{Generation: e.Generation, Fence: e.Fence}); err != nil {
		return Effects{}, err
	}
	r.round, r.first, r.history = e.Round, e.Round, e.History
	r.applying, r.arriving, r.lastApplied = false, false, nil
	for _, m := range r.members {
		m.declared, m.complete = false, false
		clear(m.received)
	}
	return Effects{Drop: true}, nil
}

// restoreUpdates does the same for a server of an async job. What is in the queues is dropped, not applied.
func restoreUpdates(u *Updates, e Restored) (Effects, error) {
	if err := u.freeze(Frozen{Generation: e.Generation, Fence: e.Fence}); err != nil {
		return Effects{}, err
	}
	u.steps, u.history, u.back = e.Round, e.History, e.Generation
	u.hold, u.pace = hold{}, pace{}
	for _, m := range u.members {
		m.gone = true
	}
	return Effects{}, nil
}

// over reports whether nothing counts any more that a process which joined in a generation has sent.
func (p *past) over(since id.Generation) bool { return p.history > 0 && since <= p.back }

// A restoring is the server's part of a checkpoint, in memory. The goroutine that applies rounds takes it, so that nothing else changes the parameters.
type restoring struct {
	event  Restored
	values []*tensor.Tensor // by slice
	ledger *Ledger          // of server 0
	done   chan error       // has room
}

// Restore implements the rpc. It first ends the generation, so that nobody waits for this server meanwhile. Until the state is in memory, whole and checked,
// the server keeps what it has.
func (s *Server) Restore(ctx context.Context, m *rpc.RestoreRequest) (*rpc.RestoreResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	switch {
	case m.Store == "" && m.Ahead:
		return mover{s}.ahead(ctx, m)
	case m.Store == "":
		return mover{s}.move(ctx, m)
	}
	c, from := s.core, wire.SenderOf(m.Id)
	if m.History == 0 {
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Gotf("a way back to history %d", m.History), fault.Want("a later one")))
	}
	if _, err := freeze(s, m.Id, true); err != nil {
		return nil, err
	}
	r := &restoring{event: Restored{Generation: from.Generation, Fence: from.Fence, Round: from.Round, History: m.History}, done: make(chan error, 1)}
	if err := r.load(ctx, s, m); err != nil {
		return nil, fault.E(fault.KindOf(err), fault.At(c.Where), fault.Cause(err))
	}
	if err := r.makeWay(c); err != nil {
		return nil, c.refuse(err)
	}
	select { // ctx does not end it: a round may be given up
	case c.toTake <- r:
	case <-c.ended:
		return nil, fault.E(fault.LostMember, fault.At(c.Where), fault.Got("a way back after the end of this server"), fault.Cause(failureOf(c)))
	}
	if err := <-r.done; err != nil {
		return nil, c.refuse(err)
	}
	answer := &rpc.RestoreResponse{}
	if r.ledger != nil {
		for _, pass := range r.ledger.Counts() {
			answer.Records += pass.Records + pass.Again
		}
	}
	c.cfg.Log.Info("state of a checkpoint", "checkpoint", m.Name, "round", from.Round, "history", m.History)
	return answer, nil
}

// load reads this server's part of a checkpoint into memory.
func (r *restoring) load(ctx context.Context, s *Server, m *rpc.RestoreRequest) (err error) {
	store, err := checkpoint.Open(ctx, m.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	k, err := store.Read(ctx, m.Name)
	if err != nil {
		return err
	}
	if have := id.Round(k.Manifest.Progress.GetSteps()); have != r.event.Round {
		return fault.E(fault.Corrupt, fault.At(k.Address()), fault.Gotf("the state of round %d", have), fault.Wantf("that of round %d", r.event.Round))
	}
	for _, slice := range s.cuts.service.Slices {
		have, ok := s.values.Variable(slice.Name)
		if !ok {
			return noTensor(slice.Name)
		}
		t, err := tensor.New(have.DType(), have.Dims()...)
		load := k.Load
		if slice.Striped {
			load = k.LoadStriped
		}
		if err == nil {
			err = load(ctx, slice.Origin, slice.FirstRow, t)
		}
		if err != nil {
			return err
		}
		r.values = append(r.values, t)
	}
	if s.core.cfg.Index == 0 {
		r.ledger = &Ledger{}
		if len(k.Manifest.Ledger) > 0 {
			r.ledger, err = DecodeLedger(k.Manifest.Ledger)
		}
	}
	return err
}

// failureOf is why a server has ended; nil where it has done all that it had to do.
func failureOf(c *core) error {
	c.Lock()
	defer c.Unlock()
	return c.Err()
}

// makeWay gives up the round that is being applied, unless the coordinator is refused. take must follow.
func (r *restoring) makeWay(c *core) error {
	e := r.event
	c.Lock()
	defer c.Unlock()
	if _, err := c.step(Frozen{Generation: e.Generation, Fence: e.Fence, Restores: true}); err != nil {
		return err
	}
	c.restoring++
	if c.giveUp != nil {
		c.giveUp()
	}
	return nil
}

// applyUnlessRestored applies a round. It reports whether the round was given up: then its values are mixed, until a checkpoint takes their place.
func applyUnlessRestored(ctx context.Context, c *core, by *stepper, from []Declaration) (gaveUp bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Lock()
	round := c.rounds.Round()
	if gaveUp = c.restoring > 0; !gaveUp {
		c.giveUp = cancel
	}
	c.Unlock()
	if gaveUp {
		return true, nil
	}
	err = by.apply(ctx, round, from)
	c.Lock()
	defer c.Unlock()
	if c.giveUp = nil; err != nil && c.restoring > 0 {
		c.gaveUp = true
		return true, nil
	}
	return false, err
}

// take puts a state in the place of what the server has.
func (r *restoring) take(s *Server) {
	c := s.core
	s.values.Lock()
	defer s.values.Unlock()
	c.Lock()
	defer c.Unlock()
	c.restoring--
	c.arrival.giveUp(c)
	f, err := c.step(r.event)
	if err != nil {
		if c.gaveUp {
			c.end(fault.E(fault.LostMember, fault.At(c.Where), fault.Got("a round that was given up, and no state of a checkpoint"), fault.Cause(err)))
		}
		r.done <- err
		return
	}
	s.values.freezer.replaced()
	for i, slice := range s.cuts.service.Slices {
		have, _ := s.values.Variable(slice.Name)
		err = errors.Join(err, have.CopyFrom(r.values[i]))
	}
	s.sums.replaced()
	if err != nil {
		c.end(fault.E(fault.Internal, fault.At(c.Where), fault.Cause(err)))
	}
	select {
	case <-c.toApply: // a round that nobody has begun to apply
	default:
	}
	c.gaveUp = false
	c.sums.published = map[string]publication{} // of the rounds that are trained again
	s.cuts.giveUp()
	asyncMirror{c.mirror}.forget()
	s.updaters.abandon()
	if c.updates != nil {
		c.applied = r.event.Round
	}
	if r.ledger != nil {
		c.ledger = r.ledger
	}
	c.carryOut(f)
	c.changed()
	r.done <- err
}
