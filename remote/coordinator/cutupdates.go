package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// This file cuts async jobs. There is no round that all servers have, so the cut lies between two steps of each trainer: every server holds the steps that
// begin, and tells which have; those that have begun anywhere are in the cut, and no other. The ledger of server 0 has exactly their records, so a job that
// goes on trains the others. Package pserver (hold.go) says why no trainer has to stop.
//
// A cut is due some steps or some time after the one before, when a pass has ended, or when the job waits for files (cutidle.go); never where nothing is new. It is made at once: its number of steps is known when it is held.

// dueNow returns how many steps are reported, and whether a cut of an async job is due. While a generation is about to begin none is: servers would give it
// up. The monitor is held.
func (c *cuts) dueNow() (at id.Round, due bool) {
	at = max(id.Round(c.steps.written()), c.cfg.start().Round)
	switch {
	case c.ending.members.machine.Phase() != generation.Running, len(c.ending.store.queues) == 0:
		return at, false
	case c.wanted():
	case at == id.Round(c.covered): // nothing is new
		return at, false
	case c.idle:
	case c.plan.passes:
		for _, q := range c.ending.store.queues {
			due = due || q.Pass() > c.plan.pass && !q.Ended()
		}
		return at, due
	case c.plan.rounds > 0:
		return at, at >= (c.plan.last/c.plan.rounds+1)*c.plan.rounds
	}
	return at, true
}

// cutUpdates asks all servers for their parts of a cut, and returns them with the name of the checkpoint. giveUp ends ctx.
func (c *cuts) cutUpdates(ctx context.Context, giveUp context.CancelCauseFunc, name func(steps id.Round) string) (answers []*rpc.CutResponse, err error) {
	late := time.AfterFunc(cutDeadline, func() {
		giveUp(fault.E(fault.DeadlineExceeded, fault.Gotf("a checkpoint that took %v", cutDeadline), fault.Want("a store that answers")))
	})
	defer late.Stop()
	who := c.identity(0, 0)
	c.locked(func() {
		who.Generation, c.covers = uint64(c.ending.members.machine.Generation().Number), c.steps.written()
		for _, q := range c.ending.store.queues {
			c.plan.pass = max(c.plan.pass, q.Pass())
		}
	})
	hold := rand.Text()
	defer func() {
		if err != nil {
			c.letGo(who, hold)
		}
		if errors.Is(err, fault.Superseded) { // a generation has begun
			err = errMoved
		}
	}()
	held, err := askEach(ctx, c.core, func(ctx context.Context, s rpc.ParameterServerClient) (*rpc.HoldResponse, error) {
		return s.Hold(ctx, &rpc.HoldRequest{Id: who, Hold: hold}, grpc.WaitForReady(true))
	})
	if err != nil {
		return nil, err
	}
	m := &rpc.CutRequest{Id: who, Store: c.cfg.Checkpoints.Store, Hold: hold, Bases: c.bases}
	steps := id.Round(0)
	m.Below, steps = boundsOf(held, c.cfg.start().Round)
	m.Name = name(steps)
	answers, err = askEach(ctx, c.core, func(ctx context.Context, s rpc.ParameterServerClient) (a *rpc.CutResponse, err error) {
		_ = wire.Retry(ctx, func(id.Retry) error {
			if a, err = s.Cut(ctx, m, grpc.WaitForReady(true)); wire.Broken(err) { // a server knows the name of a cut: it makes no second one
				return err
			}
			return nil
		})
		return a, err
	})
	if err == nil && id.Round(answers[0].Steps) != steps {
		err = fault.E(fault.Internal, fault.At(serverName(0)), fault.Gotf("a cut after %d steps", answers[0].Steps), fault.Wantf("%d", steps))
	}
	return answers, err
}

// boundsOf returns the first step of each trainer that no push that has begun anywhere has, and how many steps there are before. Of each trainer at most one
// push has begun that the ledger does not have yet. Trainers number their steps from first on, without gaps, so two numbers tell how many steps it has.
func boundsOf(held []*rpc.HoldResponse, first id.Round) (below []*rpc.StepBound, steps id.Round) {
	bounds, entered := map[uint32]uint64{}, map[uint32]uint64{}
	for _, h := range held {
		for _, b := range h.Begun {
			bounds[b.Rank] = max(bounds[b.Rank], b.Below)
		}
	}
	for _, b := range held[0].Ledger {
		entered[b.Rank] = b.Below
	}
	steps = id.Round(held[0].Steps)
	for rank, bound := range bounds {
		below = append(below, &rpc.StepBound{Rank: rank, Below: bound})
		if from := max(entered[rank], uint64(first)); bound > from {
			steps += id.Round(bound - from)
		}
	}
	return below, steps
}

// letGo lets trainers go on where servers hold steps for a cut that is given up. A server that is not told does so after the round deadline.
func (c *cuts) letGo(who *rpc.Identity, hold string) {
	ctx, cancel := context.WithTimeout(c.ctx, letGoTime)
	defer cancel()
	var group sync.WaitGroup
	for _, s := range c.cfg.Servers {
		group.Go(func() { _, _ = s.Hold(ctx, &rpc.HoldRequest{Id: who, Hold: hold, Over: true}) })
	}
	group.Wait()
}

// letGoTime bounds letGo.
const letGoTime = 2 * time.Second

// askEach asks all servers at the same time. The first error ends the other calls, and is returned.
func askEach[A any](ctx context.Context, c *core, ask func(context.Context, rpc.ParameterServerClient) (*A, error)) ([]*A, error) {
	answers := make([]*A, len(c.cfg.Servers))
	err := wire.EachServer(ctx, len(answers), func(ctx context.Context, i int) (err error) {
		answers[i], err = ask(ctx, c.cfg.Servers[i])
		return wire.FromStatus(serverName(i), err)
	})
	return answers, err
}

// progressOfUpdates is where a job goes on after a cut: in the last pass that its ledger has records of, see placeByLedger.
func (c *cuts) progressOfUpdates(first *rpc.CutResponse) *job.Progress {
	var p *job.Progress
	c.locked(func() { p = c.ending.progressAt(id.Round(first.Steps)) })
	p.Pass, p.Batch = max(c.cfg.start().Pass, first.Pass), 0
	return p
}
