package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// changes carries out what the generation machine wants done: it speaks to the servers and the store, and tells the machine what they answer.
//
//	event --> members.step --> Effects --> carryOut --> freeze, persist, resume, settle: one goroutine each --> event
//
// A change that begins gives up the effects of the one before it.
type changes struct {
	*core
	store    *store
	members  *members
	dispatch *dispatch
	steps    *steps
	feeds    *feeds
	mover    *mover

	current context.Context    // of the effects of the change that is under way
	giveUp  context.CancelFunc // ends current; nil before the first change

	laps     *timing.Laps // of the change that is under way, in a sync job; nil: none. The monitor guards it
	freezing bool         // its first part has not ended
}

// carryOut begins to carry out effects. The monitor is held.
func (c *changes) carryOut(out generation.Effects) {
	machine := c.members.machine
	switch {
	case out.Fail != nil:
		c.finish(out.Fail)
		return
	case out.End:
		c.steps.close(id.Round(max(uint64(machine.Committed()), c.steps.written())))
		c.spawn(c.end)
		return
	}
	if out.Freeze > 0 || out.Persist != nil && !c.cfg.Sync {
		c.giveUpEffects()
		c.current, c.giveUp = context.WithCancel(c.ctx)
	}
	ctx, number := c.current, machine.Generation().Number
	if c.freezing && machine.Phase() > generation.Freezing {
		c.freezing = false
		c.laps.Lap("freeze")
	}
	if out.Freeze > 0 {
		c.laps, c.freezing = timing.BeginLaps(), true
		c.cfg.Log.Info("generation ends", "generation", number)
		for i, server := range c.cfg.Servers {
			c.spawn(func() { c.freeze(ctx, out.Freeze, number, i, server) })
		}
	}
	if n := out.Persist; n != nil {
		c.laps.Lap("gather")
		c.spawn(func() { c.persist(ctx, n) })
	}
	if n := out.Resume; n != nil {
		c.laps.Lap("write")
		for i, server := range c.cfg.Servers {
			c.spawn(func() { c.resume(ctx, n, i, server) })
		}
	}
	if n := out.Settle; n != nil {
		c.laps.Lap("resume")
		c.spawn(func() { c.settle(ctx, n) })
	}
	if out.Begun {
		c.members.begun = true
		g := machine.Generation()
		c.cfg.Log.Info("generation begins", append([]any{"generation", g.Number, "members", len(g.Members), "round", g.Round}, c.laps.Attrs()...)...)
		c.laps = nil
		for _, r := range c.members.records {
			r.drained = false
		}
		if c.cfg.Fed {
			c.feeds.begun(g)
		} else {
			c.steps.begun(g.Round)
		}
	}
}

// giveUpEffects ends what the change that is under way still has to do. The monitor is held.
func (c *changes) giveUpEffects() {
	if c.giveUp != nil {
		c.giveUp()
	}
}

// effect calls a server until it answers, or until the change is given up, and tells the machine of the answer.
func (c *changes) effect(ctx context.Context, change uint64, who string, call func(retry id.Retry) (generation.Event, error)) {
	var e generation.Event
	err := wire.Retry(ctx, func(retry id.Retry) (err error) {
		e, err = call(retry)
		return ofServer(ctx, who, err)
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return // another change has begun, or the job has ended
	default:
		e = generation.Failed{Change: change, Err: err}
	}
	c.members.event(e)
}

// ofServer is the error of a call to a server. The end of its process is no failure: another takes its place.
func ofServer(ctx context.Context, who string, err error) error {
	err = wire.FromStatus(who, err)
	if errors.Is(err, fault.Canceled) && ctx.Err() == nil {
		err = fault.E(fault.Unavailable, fault.At(who), fault.Got("the end of this server"), fault.Want("the next one"), fault.Cause(err))
	}
	return err
}

// freeze ends a generation on one server.
func (c *changes) freeze(ctx context.Context, change uint64, number id.Generation, i int, server rpc.ParameterServerClient) {
	c.effect(ctx, change, serverName(i), func(retry id.Retry) (generation.Event, error) {
		answer, err := server.Freeze(ctx, &rpc.FreezeRequest{Id: c.identity(number, retry), Placement: c.cfg.Placement.GetNumber()})
		return generation.Frozen{Change: change, Server: i, Answer: answer}, err
	})
}

// resume begins a generation on one server.
func (c *changes) resume(ctx context.Context, n *generation.Next, i int, server rpc.ParameterServerClient) {
	m := &rpc.ResumeRequest{Round: uint64(n.Generation.Round), Commit: n.Generation.Commit}
	for _, member := range n.Generation.Members {
		named := &rpc.Member{Rank: uint32(member.Rank), Since: uint64(member.Since)}
		if leader := uint32(n.Generation.Leader(member.Rank)); leader != named.Rank {
			named.Leader = &leader
		}
		m.Members = append(m.Members, named)
	}
	c.effect(ctx, n.Change, serverName(i), func(retry id.Retry) (generation.Event, error) {
		_, err := server.Resume(ctx, &rpc.ResumeRequest{Id: c.identity(n.Generation.Number, retry), Members: m.Members, Round: m.Round, Commit: m.Commit})
		return generation.Resumed{Change: n.Change, Server: i}, err
	})
}

// persist makes a generation durable.
func (c *changes) persist(ctx context.Context, n *generation.Next) {
	c.effect(ctx, n.Change, "etcd", func(id.Retry) (generation.Event, error) {
		err := c.store.transact(ctx, func(t *txn) error {
			if err := c.putLeft(t); err != nil {
				return err
			}
			return t.put(generationKey, entryOf(n.Generation))
		})
		return generation.Persisted{Change: n.Change}, err
	})
}

// settle takes back the tasks of trainers that are gone. In sync mode it begins a new segment where a task has failed. Then the state
// moves, if it is to.
func (c *changes) settle(ctx context.Context, n *generation.Next) {
	c.effect(ctx, n.Change, serverName(0), func(id.Retry) (generation.Event, error) {
		settle := c.dispatch.recoverTasks
		if c.cfg.Sync {
			settle = c.dispatch.beginSegment
		}
		err := settle(ctx, n.Generation)
		if err == nil {
			c.steps.complement(ctx, n.Generation)
			err = c.store.transact(ctx, func(t *txn) error { return t.put(settledKey, &state.Settled{Generation: uint64(n.Generation.Number)}) })
		}
		if err == nil {
			c.locked(func() { c.laps.Lap("settle") })
			err = c.mover.settle(ctx, n.Generation)
		}
		return generation.Settled{Change: n.Change}, err
	})
}

// end ends a job whose members have all left. It first makes durable that they have, so that another coordinator asks nobody. Then it tells the pservers:
// they stay until they hear of the end, because until then a coordinator may ask them how far they are.
func (c *changes) end() {
	if err := wire.Retry(c.ctx, func(id.Retry) error { return c.store.transact(c.ctx, c.putLeft) }); err != nil {
		c.Fail(err)
		return
	}
	if err := c.unfinished(); err != nil {
		c.Fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.RejoinDeadline)
	defer cancel()
	silent := map[int]bool{} // servers that have not heard yet
	var number id.Generation
	c.locked(func() {
		number = c.members.machine.Generation().Number + 1
		for i, server := range c.cfg.Servers {
			silent[i] = true
			c.spawn(func() {
				if err := c.dismiss(ctx, number, i, server); err != nil && c.ctx.Err() == nil {
					c.cfg.Log.Warn("a server has not heard of the end of the job", "server", i, "reason", err.Error())
				}
				c.locked(func() { delete(silent, i); c.monitor.Broadcast() })
			})
		}
	})
	reason := func() waits.Wait {
		w := waits.Wait{Who: "coordinator", What: "the servers to hear of the end"}
		for i := range c.cfg.Servers {
			if silent[i] {
				w.By = append(w.By, serverName(i))
			}
		}
		return w
	}
	// The calls of dismiss end with ctx, so this does.
	_ = c.await(context.WithoutCancel(ctx), reason, func() (bool, error) { return len(silent) == 0, nil })
	c.locked(func() { c.finish(nil) })
}

// unfinished is an error while passes are to come that nobody has begun, or feeds. Trainers leave at the end of the data; that they say so is no proof.
func (c *changes) unfinished() (err error) {
	left := func(at, got string) error {
		return fault.E(fault.Corrupt, fault.At(at), fault.Got("trainers that have all left, and "+got), fault.Want("trainers that leave at the end of the data"))
	}
	c.locked(func() {
		switch {
		case c.cfg.Fed && !c.feeds.finished:
			err = left("coordinator", "a user who may still feed steps")
		case !c.cfg.Fed && len(c.store.queues) == 0 && readingOf(c.cfg.Program).Rows > 0:
			err = left("coordinator", "no dataset that one of them has reported")
		}
		for name, q := range c.store.queues {
			if queue.Unread(q) {
				err = left("dataset "+fault.Quote(name), fmt.Sprintf("passes that nobody has begun: %d of %d have", q.Pass()-c.cfg.start().Pass+1, max(c.cfg.Passes, 1)))
			}
		}
	})
	return err
}

// dismiss releases one server, by a generation without members. A server that is gone needs no word.
func (c *changes) dismiss(ctx context.Context, number id.Generation, i int, server rpc.ParameterServerClient) error {
	return wire.Retry(ctx, func(retry id.Retry) error {
		_, err := server.Resume(ctx, &rpc.ResumeRequest{Id: c.identity(number, retry)}, grpc.WaitForReady(false))
		err = wire.FromStatus(serverName(i), err)
		if fault.KindOf(err) == fault.Unavailable && c.gone(ctx, cluster.Member{Role: job.Role_PSERVER, Index: i}) {
			return nil
		}
		return err
	})
}

// gone reports whether a member is known not to live.
func (c *changes) gone(ctx context.Context, m cluster.Member) bool {
	if c.cfg.Live == nil {
		return false
	}
	live, err := c.cfg.Live(ctx)
	_, lives := live[m]
	return err == nil && !lives
}

// putLeft enters who has left. The machine may know it from the servers alone.
func (c *changes) putLeft(t *txn) error {
	var left []id.Rank
	c.locked(func() { left = c.members.machine.State().Left })
	for _, rank := range left {
		if err := t.put(leftKey+fmt.Sprint(rank), &state.Left{Rank: uint32(rank)}); err != nil {
			return err
		}
	}
	return nil
}

// restored is what is durable of the job itself.
type restored struct {
	generation generation.State
	saver      *uint32
	finished   *state.Finished // nil: the user has not ended the job
	steps      uint64
}

// restoreJob reads the entries of the job itself.
func restoreJob(entries map[string][]byte) (out restored, err error) {
	read := func(key string, m proto.Message) bool {
		b, ok := entries[key]
		if ok && err == nil {
			err = fault.Wrap(fault.Corrupt, "entry "+key, proto.Unmarshal(b, m))
		}
		return ok && err == nil
	}
	var g state.Generation
	if read(generationKey, &g) {
		out.generation.Number, out.generation.Round = id.Generation(g.Number), id.Round(g.Round)
		for _, m := range g.Members {
			out.generation.Members = append(out.generation.Members, generation.Member{Rank: id.Rank(m.Rank), Since: id.Generation(m.Since),
				Incarnation: id.Incarnation(m.Incarnation)})
		}
	}
	var settled state.Settled
	if read(settledKey, &settled) {
		out.generation.Settled = id.Generation(settled.Generation)
	}
	for key := range entries {
		var left state.Left
		if strings.HasPrefix(key, leftKey) && read(key, &left) {
			out.generation.Left = append(out.generation.Left, id.Rank(left.Rank))
		}
	}
	var saves state.Saver
	if read(saverKey, &saves) {
		out.saver = &saves.Rank
	}
	var finished state.Finished
	if read(finishedKey, &finished) {
		out.finished = &finished
	}
	var steps state.Steps
	if read(stepsKey, &steps) {
		out.steps = steps.Steps
	}
	return out, err
}

// entryOf is the durable form of a generation.
func entryOf(g generation.Generation) *state.Generation {
	e := &state.Generation{Number: uint64(g.Number), Round: uint64(g.Round)}
	for _, m := range g.Members {
		e.Members = append(e.Members, &state.Member{Rank: uint32(m.Rank), Since: uint64(m.Since), Incarnation: uint64(m.Incarnation)})
	}
	return e
}
