package pserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
)

// core is the state of a server and the one lock that guards it: the machine, what its effects act on, and the waits for changes. The calls, the
// stepper, the updaters and the exchange share one core. Those of its methods that say so take the lock; the others are called with the lock held.
type core struct {
	waits.Monitor // ends when the server has failed or finished

	cfg      Config
	name     string        // this server, in waits; changes when a standby takes over, so the lock guards it
	ended    chan struct{} // closed when the Monitor has ended
	canceled error         // how the server has ended, where that was the end of its context; else nil
	released chan struct{} // closed when a coordinator knows that the server has finished, or there is none
	toApply  chan []Declaration
	toTake   chan *restoring // states of checkpoints
	toFill   chan *arrival   // rows of the placement before that are to come
	toCut    token           // wakes who makes cuts
	moving   chan struct{}   // has a token while the state of another placement is taken

	machine    machine  // rounds or updates; nil until the program serves
	rounds     *Rounds  // in sync mode, else nil
	updates    *Updates // in async mode, else nil
	inbox      inbox
	ledger     *Ledger // nil but on server 0
	sums       partialSums
	lines      lines
	heard      heard
	timed      timed
	refused    map[string]uint64
	deadline   deadline
	freezes    int      // how often a coordinator has ended a generation
	applied    id.Round // async: updates applied
	isReleased bool     // released is closed
	giveUp     func()   // gives up the round that is being applied; nil: none is
	restoring  int      // states of checkpoints that are about to be taken: no round is applied before
	gaveUp     bool     // a round was given up: only a Restored helps
	process    uint64   // tells this server from others of its index
	arrival    *arrival // the last; nil: there has been none, or its rows were of no use
	standby    *standby // nil: the server has never been one
	mirror     *mirror  // nil without standbys; written once, before the program serves
	unfollowed int      // waits for a standby that is in step
	leaving    leaving
}

func newCore(cfg Config) *core {
	c := &core{cfg: cfg, name: serverName(cfg.Index), ended: make(chan struct{}), released: make(chan struct{}), toApply: make(chan []Declaration, 1),
		toTake: make(chan *restoring), toFill: make(chan *arrival, 1), toCut: make(token, 1), moving: make(chan struct{}, 1),
		sums: newPartialSums(), lines: lines{}, heard: make(heard, cfg.MaxTrainers), refused: map[string]uint64{}, applied: cfg.Start,
		timed: timed{times: cfg.Times}, process: rand.Uint64() | 1}
	if cfg.Follows != nil {
		c.standby, c.name = &standby{following: true}, standbyName(cfg.Index)
	}
	c.Where = fmt.Sprintf("%s of job %s", c.name, cfg.Identity.Job)
	return c
}

// heard is when the last message of each rank has come.
type heard []time.Time

// note notes a message that has come now.
func (h heard) note(rank id.Rank) {
	if int(rank) < len(h) {
		h[rank] = time.Now()
	}
}

// serverName is how waits and errors name a server.
func serverName(index int) string { return fmt.Sprintf("pserver %d", index) }

// step tells the machine an event. It calls the machine by its own type, so that an event need not be moved to the heap, and asks for no time, because
// neither machine reads it.
func (c *core) step(e Event) (Effects, error) {
	if c.rounds == nil {
		return c.updates.Step(0, e)
	}
	f, err := c.rounds.Step(0, e)
	if err == nil && !f.Hold && !f.Ignore {
		c.timed.note(e, f)
	}
	return f, err
}

// timed is the round that is timed now. The lock of core guards it.
type timed struct {
	times *timing.Recorder
	round id.Round
	some  bool // there is one
}

// note notes when a round begins, when its last contribution is declared, and when it is given up. The machine has taken the event.
func (t *timed) note(e Event, f Effects) {
	switch e := e.(type) {
	case Offered:
		t.begin(e.Round)
	case Declared:
		t.begin(e.Round) // without gradients nothing is offered
		t.times.Last(int(e.Rank))
	}
	switch {
	case f.Apply:
		t.times.Enter(timing.Merge)
	case f.Drop:
		t.times.End()
		t.some = false
	}
}

// begin begins to time the round of a message, unless that has begun.
func (t *timed) begin(round id.Round) {
	if t.some && t.round == round {
		return
	}
	t.round, t.some = round, true
	t.times.Begin(uint64(round))
	t.times.Enter(timing.Gather)
}

// carryOut does what an event asks for, but for Hold, Ignore and LearningRate, which concern the call that has brought the event. The caller calls changed
// afterwards.
func (c *core) carryOut(f Effects) {
	for _, d := range f.Commit {
		if c.ledger == nil {
			break
		}
		if err := c.ledger.Commit(d.Pass, d.Records); err != nil {
			c.end(err)
		}
	}
	if f.Drop {
		c.inbox.recycle()
	}
	if f.Apply {
		c.toApply <- f.Contributors // never blocks: at most one round is being applied
	}
	if f.Finished {
		c.end(nil)
	}
	if f.Cut {
		c.toCut.wake()
	}
}

// A token wakes a goroutine, which looks what there is to do. It has room for one.
type token chan struct{}

func (t token) wake() {
	select {
	case t <- struct{}{}:
	default: // it will look anyway
	}
}

// decide tells the machine a message. While the machine holds the message, decide waits and tells it again after every change. ignored reports that
// the message was applied before. The error is why the message is refused, or why the wait has ended. It takes the lock.
func (c *core) decide(ctx context.Context, e Event) (ignored bool, err error) {
	var f Effects
	var refused error
	err = c.Await(ctx, func() waits.Wait { return c.holding(e) }, func() (bool, error) {
		f, refused = c.step(e)
		if f.Shared {
			c.Broadcast()
		}
		if f.Hold {
			if _, ok := e.(Shared); ok {
				c.watch() // the round has begun
			}
			return false, nil
		}
		switch e := e.(type) {
		case Paced:
			if e.Rests {
				c.Broadcast() // who waits for the trainer goes on
			}
		case Declared, Completed: // others change nothing that anybody waits for
			if refused != nil || f.Ignore {
				break
			}
			c.carryOut(f)
			if d, ok := e.(Declared); ok {
				asyncMirror{c.mirror}.enter(d)
			}
			if _, ok := e.(Declared); ok && c.rounds != nil {
				c.watch() // whoever waits for the round waits until it is applied
			} else {
				c.changed()
			}
		}
		return true, nil
	})
	if err == nil && refused != nil {
		err = c.refuse(refused)
	}
	return f.Ignore, err
}

// refuse counts a message that must not count, and returns why. It takes the lock.
func (c *core) refuse(why error) error {
	c.Lock()
	defer c.Unlock()
	c.refused[fault.KindOf(why).String()]++
	level := slog.LevelWarn
	if kind := fault.KindOf(why); c.cfg.Backup > 0 && (kind == fault.Stale || kind == fault.Duplicate) { // of a trainer that is late, as some are
		level = slog.LevelDebug
	}
	c.cfg.Log.Log(context.Background(), level, "message refused", "reason", why.Error())
	return why
}

// duplicate counts a message that was applied before. It takes the lock.
func (c *core) duplicate(what string, variable string, from Sender) {
	_ = c.refuse(fault.E(fault.Duplicate, fault.Var(variable), fault.Gotf("trainer %d's %s to round %d again", from.Rank, what, from.Round)))
}

// serves waits until the program serves, and, at a standby, until that takes over. It takes the lock.
func (c *core) serves(ctx context.Context) error {
	w := func() waits.Wait { return waits.Wait{Who: c.name, What: "its program to start", By: []string{c.name}} }
	return c.Await(ctx, w, func() (bool, error) {
		return c.machine != nil && !c.standby.follows(), nil
	})
}

// version is what the server serves: rounds, or in async mode updates, since the beginning of the training.
func (c *core) version() id.Round {
	if c.rounds != nil {
		return c.rounds.Round()
	}
	return c.applied
}

// changed wakes everyone who waits, and sets the deadline of what the server itself waits for now.
func (c *core) changed() {
	c.watch()
	c.Broadcast()
}

// finished reports whether every member has completed.
func (c *core) finished() bool { return c.Ended() && c.Err() == nil }

// end ends the server, unless it has ended already: in good order with nil, else with the error that everyone who waits, and everyone who calls from
// now on, is told. Of a server whose context has ended they are told that it is gone.
func (c *core) end(err error) {
	told := err
	if errors.Is(err, fault.Canceled) {
		told = fault.E(fault.Unavailable, fault.At(c.Where), fault.Got("its end: "+err.Error()), fault.Want("another process in its place"))
	}
	if c.End(told) {
		if told != err {
			c.canceled = err
		}
		close(c.ended)
		c.watch()
	}
}

// release closes released.
func (c *core) release() {
	if !c.isReleased {
		c.isReleased = true
		close(c.released)
		c.changed()
	}
}
