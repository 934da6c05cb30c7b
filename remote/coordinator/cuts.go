package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Checkpoints says where a coordinator keeps checkpoints of its job, and how often it makes one.
type Checkpoints struct {
	Store  string // as checkpoint.Open takes it; empty: none are made
	Run    string // names those of this job
	Rounds uint64 // between two; 0: Every counts
	Every  time.Duration
	Passes bool // one at the end of each pass; Rounds and Every are 0
	// Idle is how long a job that waits for new files makes no step before it makes a checkpoint of what it has trained since the last one; 0: it makes none.
	Idle    time.Duration
	Keep    int      // so many complete ones stay
	Origins []string // runs whose checkpoints this one goes on with, the last one last
	// FirstPass is the pass in which the job began: its passes count from there.
	FirstPass int32
}

// cuts makes the checkpoints of a job. It asks all pservers for the same round, waits until their parts are durable, and publishes the manifest. Rounds
// go on meanwhile. Training never waits for a checkpoint that fails: it is tried again, and told. What an async job does instead is in cutupdates.go.
type cuts struct {
	*core
	steps  *steps
	ending *ending
	plan   *cutPlan
	over   chan struct{} // closed when keep has returned

	// The monitor guards what follows.
	last         *job.CheckpointStatus // nil: none yet
	failingSince time.Time             // of the first attempt since last that has failed; zero: none has
	reason       error                 // of the last failure
	attempt      id.Round              // of the cut that is being made
	attempts     int                   // so far
	made         int                   // which of them the last one is that was made
	reached      time.Time             // when its round was applied; zero: it is not yet
	idle         bool                  // async: the job waits for files, and has trained since the last checkpoint
	covered      uint64                // steps that were reported when the last cut was begun: it has them
	covers       uint64                // likewise of the cut that is being made
	wants        []*want               // of the calls of make that wait
	bases        []string              // complete checkpoints that stay: the last one, and those that it has shards of
	constant     *job.Shard            // of the variables that no server holds, as an earlier one has it; nil: none. Both belong to the goroutine of keep
	giveUp       func()                // ends the attempt, which was not made for such a call, for another; nil: there is none
	abandon      func()                // ends the attempt; nil: there is none
}

const (
	cutDeadline = 10 * time.Minute // for all that an attempt does after its round
	cutTold     = 30 * time.Second // an attempt that takes longer after its round is told
)

// stop returns when the last checkpoint is made or given up. The job goes back to one.
func (c *cuts) stop() {
	c.locked(func() {
		if c.abandon != nil {
			c.abandon()
		}
		c.monitor.Broadcast()
	})
	<-c.over
}

// keep makes checkpoints until the job ends or goes back to one.
func (c *cuts) keep() {
	defer close(c.over)
	c.plan = newCutPlan(c.cfg.Checkpoints, c.cfg.start().Round)
	c.plan.lastAt, c.plan.pass, c.covered = c.now(), c.cfg.start().Pass, uint64(c.cfg.start().Round)
	due := func() time.Time {
		if c.goesBack {
			return c.epoch
		}
		return c.epoch.Add(c.plan.when(c.wanted()))
	}
	for c.alarm(due) {
		ctx, giveUp := context.WithCancelCause(c.ctx)
		round, ok := c.next(func() { giveUp(errMoved) })
		if !ok {
			giveUp(nil)
			return
		}
		began := time.Now()
		stop := c.watchIdle(func() { giveUp(errIdle) })
		version, round, bytes, err := c.cut(ctx, giveUp, round)
		stop()
		giveUp(nil)
		c.locked(func() { c.reached, c.giveUp, c.abandon = time.Time{}, nil, nil })
		switch {
		case c.ctx.Err() != nil:
			return
		case errors.Is(err, errMoved):
		case errors.Is(err, errIdle):
			c.plan.idle = true
		case err == nil && version > round:
			c.plan.past(round, version)
		case err == nil:
			c.plan.done(c.now(), round)
			c.cfg.Log.Info("checkpoint", "steps", round, "bytes", bytes, "took", time.Since(began))
		case errors.Is(err, fault.Stale): // the job has no such round: its trainers have completed before it, and the store has not failed
			c.plan.failed(c.now())
			c.cfg.Log.Info("no checkpoint behind the last step", "round", round)
		case errors.Is(err, fault.Superseded): // a server has other state now, or was asked for another cut: the store has not failed
			c.plan.failed(c.now())
			c.cfg.Log.Info("a checkpoint gives way to a later one", "round", round, "reason", err.Error())
		default:
			c.plan.failed(c.now())
			c.note(nil, err)
			c.cfg.Log.Warn("no checkpoint; training goes on", "store", c.cfg.Checkpoints.Store, "round", round, "error", err)
		}
	}
}

// errMoved ends an attempt in favour of one at another round.
var errMoved = errors.New("another round is cut")

// next begins an attempt, and returns its round. It waits until that is known; ok is false when the job ends before, or goes back.
// giveUp ends the attempt.
func (c *cuts) next(giveUp func()) (round id.Round, ok bool) {
	c.locked(func() { c.awaitsStep++ })
	defer c.locked(func() { c.awaitsStep-- })
	if !c.cfg.Sync {
		c.locked(func() { c.idle = false })
		defer c.watchIdle(func() { c.locked(func() { c.idle = true; c.monitor.Broadcast() }) })()
	}
	err := c.await(c.ctx, waitFor("coordinator", "the end of a pass"), func() (bool, error) {
		if c.goesBack {
			return true, nil
		}
		if c.cfg.Sync {
			round, ok = c.plan.next(max(id.Round(c.steps.written()), c.cfg.start().Round), c.wanted(), c.ending.isOver(), c.passEnd)
		} else {
			round, ok = c.dueNow()
		}
		if ok {
			c.attempt, c.reached, c.abandon, c.covers = round, time.Time{}, giveUp, uint64(round)
			c.attempts++
		}
		if ok && !c.wanted() && c.cfg.Sync {
			c.giveUp = giveUp
		}
		return ok || c.ended, nil
	})
	return round, ok && err == nil
}

// make makes a checkpoint as soon as it can, and returns when there is one of all steps that are reported now. In async mode that is one that is begun later:
// a step may be reported that is not in the ledger, because its trainer was lost. who is the wait of the caller, but for what can end it.
func (c *cuts) make(ctx context.Context, who waits.Wait) (last *job.CheckpointStatus, err error) {
	if c.cfg.Checkpoints.Store == "" {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+c.cfg.Identity.Job), fault.Got("no place for checkpoints"),
			fault.Want("a job that was started with --checkpoint STORE"))
	}
	w := &want{}
	c.locked(func() {
		w.steps, w.attempts = c.steps.written(), c.attempts
		c.wants = append(c.wants, w)
		if c.giveUp != nil && c.reached.IsZero() { // its round may be far
			c.giveUp()
		}
		c.monitor.Broadcast()
	})
	defer c.locked(func() { c.wants = slices.DeleteFunc(c.wants, func(x *want) bool { return x == w }) })
	who.By = []string{c.cfg.Checkpoints.Store}
	err = c.await(ctx, func() waits.Wait { return who }, func() (bool, error) {
		if w.met(c) {
			last = c.status()
			return true, nil
		}
		if c.ended {
			return false, fault.E(fault.Stale, fault.At("job "+c.cfg.Identity.Job), fault.Got("the end of the job"), fault.Want("a job that runs"))
		}
		return false, nil
	})
	if err == nil {
		return last, nil
	}
	c.locked(func() {
		if c.reason != nil && !c.failingSince.IsZero() {
			err = errors.Join(err, c.reason)
		}
	})
	return nil, err
}

// A want is what a call of make waits for.
type want struct {
	steps    uint64 // that were reported at the call
	attempts int    // that had begun then
}

// met reports whether the last checkpoint is what the call waits for. The monitor is held.
func (w *want) met(c *cuts) bool {
	return c.last != nil && (c.cfg.Sync && c.last.Steps >= w.steps || !c.cfg.Sync && c.made > w.attempts)
}

// wanted reports whether a call of make waits for a checkpoint that is not made yet. The monitor is held.
func (c *cuts) wanted() bool {
	return slices.ContainsFunc(c.wants, func(w *want) bool { return !w.met(c) })
}

// passEnd is where the first pass ends behind a round, and another one follows. The monitor is held.
func (c *cuts) passEnd(after id.Round) (end id.Round, ok bool) {
	for _, q := range c.ending.store.queues {
		if end, ok = q.PassEnd(after); ok {
			return end, true
		}
	}
	return 0, false
}

// note notes how an attempt has ended.
func (c *cuts) note(done *job.CheckpointStatus, err error) {
	c.locked(func() {
		if c.reason = err; err == nil {
			c.last, c.failingSince, c.made = done, time.Time{}, c.attempts
			c.covered = max(c.covered, c.covers)
		} else if c.failingSince.IsZero() {
			c.failingSince = time.Now()
		}
		c.monitor.Broadcast()
	})
}

// status tells of the last checkpoint, and of what has failed since. It is nil where the job makes none. The monitor is held.
func (c *cuts) status() *job.CheckpointStatus {
	if c.cfg.Checkpoints.Store == "" {
		return nil
	}
	s := &job.CheckpointStatus{Store: c.cfg.Checkpoints.Store}
	if c.last != nil {
		s.Name, s.Steps, s.Bytes, s.CreatedMs = c.last.Name, c.last.Steps, c.last.Bytes, c.last.CreatedMs
	}
	if !c.failingSince.IsZero() {
		s.FailingSinceMs, s.Failure = c.failingSince.UnixMilli(), wire.FailureOf(c.reason)
	}
	return s
}

// wait tells that no checkpoint could be made for some time; ok is false where that is not so. The monitor is held.
func (c *cuts) wait() (w waits.Wait, ok bool) {
	if !c.reached.IsZero() && time.Since(c.reached) > cutTold {
		return waits.Wait{Who: "coordinator", What: fmt.Sprintf("the checkpoint of round %d; training goes on meanwhile", c.attempt),
			By: []string{c.cfg.Checkpoints.Store}, Since: c.reached, Limit: cutDeadline}, true
	}
	if c.failingSince.IsZero() {
		return waits.Wait{}, false
	}
	return waits.Wait{Who: "coordinator", What: "a checkpoint; training goes on without it", By: []string{c.cfg.Checkpoints.Store}, Since: c.failingSince,
		LastError: c.reason.Error()}, true
}

// cut makes one checkpoint, and returns the round of it, which is another than the one that is asked for in async mode. A version beyond it says that a server
// was past it: nothing was made. giveUp ends ctx.
func (c *cuts) cut(ctx context.Context, giveUp context.CancelCauseFunc, asked id.Round) (version, round id.Round, bytes int64, err error) {
	round = asked
	store, err := checkpoint.Open(ctx, c.cfg.Checkpoints.Store)
	if err != nil {
		return 0, round, 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if c.plan.fails > 0 { // what failed attempts have left may be what the disk is full of
		ctx, cancel := context.WithTimeout(ctx, cutDeadline)
		defer cancel()
		if err := store.Prune(ctx, c.cfg.Checkpoints.Run, c.cfg.Checkpoints.Keep); err != nil {
			return 0, round, 0, err
		}
	}
	m := &state.Checkpoint{Job: c.cfg.Identity.Job, Mode: job.Mode_ASYNC, Program: c.cfg.Identity.Program, FirstPass: c.cfg.Checkpoints.FirstPass,
		Origins: c.cfg.Checkpoints.Origins}
	var name string
	var answers []*rpc.CutResponse
	var position <-chan placed
	if c.cfg.Sync {
		m.Mode, name = job.Mode_SYNC, checkpoint.NewName(c.cfg.Checkpoints.Run, uint64(round))
		position = c.position(ctx, giveUp, round)
		answers, err = c.ask(ctx, round, name)
	} else {
		answers, err = c.cutUpdates(ctx, giveUp, func(steps id.Round) string {
			round, name = steps, checkpoint.NewName(c.cfg.Checkpoints.Run, uint64(steps))
			return name
		})
	}
	if cause := context.Cause(ctx); err != nil && cause != nil { // it was given up
		err = cause
	}
	if err != nil {
		return 0, round, 0, err
	}
	for _, a := range answers {
		if a.Past {
			return id.Round(a.Round), round, 0, nil
		}
		m.Shards = append(m.Shards, a.Shard)
		if a.Base != nil {
			m.Shards = append(m.Shards, a.Base)
		}
		if len(a.Ledger) > 0 {
			m.Ledger = a.Ledger
		}
	}
	own := c.constant
	if own == nil || !slices.ContainsFunc(m.Shards, func(s *job.Shard) bool { return s.Checkpoint == own.Checkpoint }) { // none that stays for others
		if own, err = c.constants(ctx, store, name, len(c.cfg.Servers)); err != nil {
			return 0, round, 0, err
		}
	}
	if own != nil {
		m.Shards = append(m.Shards, own)
	}
	if !c.cfg.Sync {
		m.Progress = c.progressOfUpdates(answers[0])
	} else if m.Progress, err = awaitPosition(ctx, position); err != nil {
		return 0, round, 0, err
	}
	if c.byLedger() {
		if err := c.placeByLedger(m); err != nil {
			return 0, round, 0, err
		}
	}
	m.CreatedMs = time.Now().UnixMilli()
	c.locked(func() { m.Data = c.ending.datasets(true) })
	if err := store.Publish(ctx, name, m); err != nil {
		return 0, round, 0, err
	}
	c.bases = append(checkpoint.BasesOf(m), name)
	if c.constant = proto.CloneOf(own); own != nil {
		c.constant.Checkpoint = cmp.Or(own.Checkpoint, name)
	}
	for _, s := range m.Shards {
		if s.Checkpoint == "" {
			bytes += s.Bytes
		}
	}
	c.note(&job.CheckpointStatus{Name: name, Steps: uint64(round), Bytes: bytes, CreatedMs: m.CreatedMs}, nil)
	return 0, round, bytes, store.Prune(ctx, c.cfg.Checkpoints.Run, c.cfg.Checkpoints.Keep)
}

// placeByLedger makes the position of a checkpoint that of what its ledger lacks.
func (c *cuts) placeByLedger(m *state.Checkpoint) error {
	ledger, err := &pserver.Ledger{}, error(nil)
	if len(m.Ledger) > 0 {
		ledger, err = pserver.DecodeLedger(m.Ledger)
	}
	if err != nil {
		return err
	}
	c.locked(func() {
		for _, q := range c.ending.store.queues {
			c.ending.within(q, m.Progress, ledger.Committed(m.Progress.Pass), true)
		}
	})
	return nil
}

// awaitPosition returns what position has found.
func awaitPosition(ctx context.Context, position <-chan placed) (*job.Progress, error) {
	select {
	case at := <-position:
		return at.Progress, at.err
	case <-ctx.Done():
		return nil, fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
	}
}

// ask asks all pservers for their parts. The first that fails, or is past the round, ends the others.
func (c *cuts) ask(ctx context.Context, round id.Round, name string) ([]*rpc.CutResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	who := c.identity(0, 0)
	who.Round = uint64(round)
	answers := make([]*rpc.CutResponse, len(c.cfg.Servers))
	var mu sync.Mutex
	var first error
	past := -1
	var group sync.WaitGroup
	for i, server := range c.cfg.Servers {
		group.Go(func() {
			var a *rpc.CutResponse
			var err error
			_ = wire.Retry(ctx, func(id.Retry) error {
				a, err = server.Cut(ctx, &rpc.CutRequest{Id: who, Store: c.cfg.Checkpoints.Store, Name: name, Bases: c.bases}, grpc.WaitForReady(true))
				if wire.Broken(err) { // a server knows the name of a cut: it makes no second one
					return err
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if answers[i] = a; err != nil && first == nil && past < 0 {
				first = wire.FromStatus(serverName(i), err)
			}
			if err == nil && a.Past && past < 0 {
				past = i
			}
			if err != nil || a.Past {
				cancel()
			}
		})
	}
	group.Wait()
	if first == nil && past >= 0 {
		return answers[past : past+1], nil
	}
	return answers, first
}

// constants writes the variables that no server holds, and that the startup program does not make. It returns nil where there are none.
func (c *cuts) constants(ctx context.Context, store *checkpoint.Store, name string, index int) (*job.Shard, error) {
	if c.cfg.Constant == nil {
		return nil, nil
	}
	var pieces []checkpoint.Piece
	for _, variable := range c.cfg.Constants {
		value, err := c.cfg.Constant(variable)
		if err != nil {
			return nil, err
		}
		if value != nil {
			rows := int64(1)
			if dims := value.Dims(); len(dims) > 0 {
				rows = dims[0]
			}
			pieces = append(pieces, checkpoint.Piece{Variable: variable, Dims: value.Dims(), Rows: rows, Value: value})
		}
	}
	if len(pieces) == 0 {
		return nil, nil
	}
	return store.WriteShard(ctx, name, index, pieces)
}

// A placed is a place in the data, or why it is not known.
type placed struct {
	*job.Progress
	err error
}

// position finds where the data goes on with a round, as soon as the step before it is reported: the queues forget it later. From then on the attempt has
// cutDeadline, until giveUp is called. It ends with ctx.
func (c *cuts) position(ctx context.Context, giveUp context.CancelCauseFunc, round id.Round) <-chan placed {
	found := make(chan placed, 1)
	reason := func() waits.Wait {
		return waits.Wait{Who: "coordinator", What: "the report of the step before a checkpoint", Unlisted: true}
	}
	c.locked(func() {
		c.awaitsStep++
		c.spawn(func() {
			defer c.locked(func() { c.awaitsStep-- })
			var p placed
			err := c.await(ctx, reason, func() (bool, error) {
				if c.ended {
					return false, fault.E(fault.Stale, fault.Got("the end of the job"), fault.Want("a step before it"))
				}
				if ctx.Err() != nil { // the attempt is over, and reached is the next one's
					return false, context.Cause(ctx)
				}
				if id.Round(c.steps.written()) < round {
					if end, ok := c.passEnd(round - 1); ok && end != round && c.plan.passes && c.giveUp != nil {
						giveUp(errMoved)
					}
					return false, nil
				}
				known := false
				if p.Progress, known = c.ending.positionAt(round); !known {
					return false, fault.E(fault.Unavailable, fault.Gotf("no place in the data for round %d any more", round), fault.Want("a later round"))
				}
				c.reached = time.Now()
				late := time.AfterFunc(cutDeadline, func() {
					giveUp(fault.E(fault.DeadlineExceeded, fault.Gotf("a checkpoint that took %v", cutDeadline), fault.Want("a store that answers")))
				})
				context.AfterFunc(ctx, func() { late.Stop() })
				return true, nil
			})
			p.err = err
			found <- p
		})
	})
	return found
}
