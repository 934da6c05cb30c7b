package pserver

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// The standby of a server of an async job. There are no rounds, so the server tells it each thing that changes parameters or the ledger, in an order in which
// the standby may do the same one after the other:
//
//	server                                                  standby
//	a step begins: the learning-rate block runs      --->   LEARNING_RATE: runs it
//	an update is applied                             --->   the contribution, UPDATE: applies it
//	                                                 <---   Ack, before that
//	the contribution counts as applied, so its trainer
//	may be answered
//	a step is entered in the ledger                  --->   ENTERED: enters it
//	                                                 <---   Ack
//	the trainer is answered
//
// A learning-rate block runs alone, and updates that run at the same time write different variables. So the order in which they begin is one of those that make
// these values. What is told is put into the queue before others can see its effect: while the lock of values is held, and that of core for the ledger.
//
// A trainer is answered when all that it has sent in a step is applied, and the standby has it. So of each trainer the standby may lack something of one
// step alone, which the trainer sends again to the process that takes over. That knows of each contribution of this step whether it is applied, and of the step
// whether the learning rate is that of it. So nothing is applied twice, and nothing is lost that the ledger has, or that it is asked to enter.

// An asyncMirror is what a mirror does in an async job. Without a mirror, and in a sync job, it does nothing.
type asyncMirror struct{ *mirror }

// standing adds to a message what a standby of an async server has to know. The lock is held.
func (m asyncMirror) standing(what *rpc.Standing) {
	c := m.core
	s := standingOfUpdates(c.updates)
	_, _ = m.told.Step(0, Followed{s}) // the machine has taken it, too
	if what.Kind != rpc.Standing_SYNCED {
		return
	}
	e := caughtUpOf(m.told, c.updates.steps)
	what.Round, what.Steps = uint64(c.applied), uint64(e.Steps)
	for _, p := range e.Pushed {
		out := &rpc.Pushed{Rank: uint32(p.Rank), Since: uint64(p.Since), Applied: p.Applied, Committed: uint64(p.Committed)}
		if p.Started {
			out.Begun = uint64(p.Step) + 1
		}
		what.Pushed = append(what.Pushed, out)
	}
}

// tellOf enters what a step has done, for the standby if there is one that is told. The lock is held. It returns who was told, and which message that is.
func (m asyncMirror) tellOf(e Event, from Sender, what *rpc.Standing, slices []int) (*follower, uint64) {
	_, _ = m.told.Step(0, e) // never refused: the server has taken it
	f := m.current
	if f == nil || !f.started {
		return nil, 0
	}
	what.Rank, what.Since, what.Round = uint32(from.Rank), uint64(from.Generation), uint64(from.Round)
	return f, m.enqueue(f, message{slices, what})
}

// learningRate tells the standby that a learning-rate block is about to run. The lock of values is held.
func (m asyncMirror) learningRate(from Sender) {
	if m.mirror == nil {
		return
	}
	m.core.Lock()
	defer m.core.Unlock()
	m.tellOf(Updated{Sender: from}, from, &rpc.Standing{Kind: rpc.Standing_LEARNING_RATE}, nil)
}

// update begins to tell the standby of an update, whose contributions are in their targets, and which is about to be applied. The lock of values is held
// shared. wait returns when the standby has it; until then the targets must not change.
func (m asyncMirror) update(u *updater, from Sender, hour int64) (wait func(ctx context.Context) error) {
	none := func(context.Context) error { return nil }
	if m.mirror == nil {
		return none
	}
	m.core.Lock()
	defer m.core.Unlock()
	f, number := m.tellOf(Updated{from, u.names}, from, &rpc.Standing{Kind: rpc.Standing_UPDATE, Update: uint32(u.place), Hour: hour}, u.targets)
	if f == nil {
		return none
	}
	return func(ctx context.Context) error {
		err := m.await(ctx, f, number)
		if err != nil {
			m.leave(f)
		}
		return err
	}
}

// enter tells the standby of a step that the ledger has got. The lock is held, and has been since.
func (m asyncMirror) enter(e Declared) {
	if m.mirror == nil || m.told == nil {
		return
	}
	e.Declaration.Rank = e.Rank
	m.tellOf(Entered{e.Sender, e.Declaration}, e.Sender, &rpc.Standing{Kind: rpc.Standing_ENTERED, Applied: declaredMessages([]Declaration{e.Declaration})}, nil)
}

// entered returns when the standby has all steps that the ledger has now. A step that was declared twice waits, too.
func (m asyncMirror) entered(ctx context.Context) error {
	if m.mirror == nil || m.told == nil {
		return nil
	}
	m.core.Lock()
	f := m.current
	if f == nil || !f.started {
		m.core.Unlock()
		return nil
	}
	number := f.told
	m.core.Unlock()
	return m.await(ctx, f, number)
}

// paced returns when the standby knows whether others wait for a trainer.
func (m asyncMirror) paced(ctx context.Context, rank id.Rank) error {
	if m.mirror == nil {
		return nil
	}
	m.core.Lock()
	own, told := m.core.updates.pace.clocks[rank], m.told.pace.clocks[rank]
	if f := m.current; f != nil && f.started && own != nil && (told == nil || told.since != own.since || told.counts != own.counts) {
		m.put(f, rpc.Standing_STATE, nil)
	}
	m.core.Unlock()
	return m.entered(ctx)
}

// forget makes the parameters those of a checkpoint, which has the steps of no trainer that is a member. The lock is held.
func (m asyncMirror) forget() {
	if m.mirror != nil && m.told != nil {
		m.told = NewUpdates(m.core.cfg.MaxTrainers, namesOf(m.service))
	}
}

// succeed makes what a standby of this server is to know what this one knows, which takes over. The lock is held.
func (m asyncMirror) succeed() {
	if m.told != nil {
		m.forget()
		own := m.core.updates
		_, _ = m.told.Step(0, caughtUpOf(own, own.steps)) // never refused
	}
}

// catchUpAlone is catchUp between two updates of an async job: none is applied until the standby has what was sent.
func (m asyncMirror) catchUpAlone(ctx context.Context) error {
	if m.mirror == nil {
		return nil
	}
	m.core.Lock()
	idle := m.current == nil || m.current.synced || m.current.ended
	m.core.Unlock()
	if idle {
		return nil
	}
	m.values.Lock()
	defer m.values.Unlock()
	return m.catchUp()(ctx)
}

// takePushed tells the machine of a standby how far trainers are, or what the ledger has got. The lock is held.
func takePushed(c *core, m *rpc.Standing) (err error) {
	switch m.Kind {
	case rpc.Standing_SYNCED:
		e := CaughtUp{Steps: id.Round(m.Steps)}
		for _, p := range m.Pushed {
			out := Pushed{Rank: id.Rank(p.GetRank()), Since: id.Generation(p.GetSince()), Applied: p.GetApplied(), Committed: id.Round(p.GetCommitted())}
			if begun := p.GetBegun(); begun > 0 {
				out.Started, out.Step = true, id.Round(begun-1)
			}
			e.Pushed = append(e.Pushed, out)
		}
		_, err = c.step(e)
		c.applied = id.Round(m.Round)
	case rpc.Standing_ENTERED:
		var list []Declaration
		if list, err = declarationsOf(m.Applied); err != nil || len(list) != 1 {
			return fault.E(fault.Corrupt, fault.Gotf("%d steps for the ledger", len(list)), fault.Want("one"), fault.Cause(err))
		}
		from := Sender{Rank: id.Rank(m.Rank), Generation: id.Generation(m.Since), Round: id.Round(m.Round)}
		var f Effects
		if f, err = c.step(Entered{from, list[0]}); err == nil {
			c.carryOut(f)
		}
	}
	return err
}

// A mirrored is what a standby does with the updates of its server.
type mirrored struct {
	*updaters
	room []*tensor.Tensor // where contributions arrive, by target
	what *rpc.Standing
}

// from is the step that a message is about.
func (b mirrored) from() Sender {
	return Sender{Rank: id.Rank(b.what.Rank), Generation: id.Generation(b.what.Since), Round: id.Round(b.what.Round)}
}

// take tells the machine of an update, or of a learning-rate block, that has arrived. The lock is held.
func (b mirrored) take() error {
	e := Updated{Sender: b.from()}
	if b.what.Kind == rpc.Standing_UPDATE {
		if int64(b.what.Update) >= int64(len(b.all)) {
			return fault.E(fault.Corrupt, fault.Gotf("update %d", b.what.Update), fault.Wantf("one of %d", len(b.all)))
		}
		e.Variables = b.all[b.what.Update].names
	}
	_, err := b.core.step(e)
	return err
}

// apply does what the machine knows of.
func (b mirrored) apply(ctx context.Context) error {
	if b.what.Kind == rpc.Standing_LEARNING_RATE {
		return b.schedule(ctx, b.from())
	}
	u, from := b.all[b.what.Update], b.from()
	if err := b.update(ctx, u, from); err != nil {
		return err
	}
	c := b.core
	c.Lock()
	defer c.Unlock()
	c.applied++
	for range u.names {
		f, _ := c.step(Applied{Rank: from.Rank}) // is never refused
		if c.standby.following {
			f.Finished = false
		}
		c.carryOut(f)
	}
	c.changed()
	return nil
}

// update applies an update whose contributions are here: those to the state of the forward pass have room of their own.
func (b mirrored) update(ctx context.Context, u *updater, from Sender) error {
	b.values.RLock()
	defer b.values.RUnlock()
	for i, name := range u.names {
		if u.block != comm.NoBlock {
			break
		}
		if err := b.core.inbox.targets[name].CopyFrom(b.room[u.targets[i]]); err != nil {
			return err
		}
	}
	return b.runBlock(ctx, u, from, b.what.Hour)
}
