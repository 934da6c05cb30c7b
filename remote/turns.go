package remote

import (
	"context"
	"sync"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
)

// turns orders the calls of an Executor. One call works at a time. While the callback of Train runs, Train still has its turn, and calls that only read
// the state are let in, one at a time:
//
//	idle --enter--> busy --callback begins--> callback --reader enters--> callback, reading
//	  ^              | ^                       |    ^                      |
//	  '----leave-----' '---callback ends-------'    '-----reader leaves----'
//
//	busy      Calls wait.
//	callback  Readers enter. Calls that change the state are refused. Calls that came before the callback go on waiting.
//	reading   Train does not go on before the reader has left, so that the state stays what the reader sees.
//
// close in the callback does not wait for Train, which may have called it. Train is told, and ends the executor itself.
type turns struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with every change that a call may wait for
	busy     bool
	callback bool
	reading  bool
	closed   bool // no call begins any more
	handed   bool // close came while a callback ran: the call of Train ends the executor
}

func newTurns() *turns { return &turns{changed: make(chan struct{})} }

// change makes a change. t.mu is held.
func (t *turns) change(do func()) {
	do()
	close(t.changed)
	t.changed = make(chan struct{})
}

// await returns with t.mu held when ok, which is called with t.mu held, returns true or an error. On an error t.mu is not held.
func (t *turns) await(ctx context.Context, ok func() (bool, error)) error {
	t.mu.Lock()
	for {
		done, err := ok()
		if done && err == nil {
			return nil
		}
		changed := t.changed
		t.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fault.E(fault.Canceled, fault.At("waiting for another call of this executor"), fault.Cause(context.Cause(ctx)))
		}
		t.mu.Lock()
	}
}

// A turn is what a call has between enter and leave.
type turn struct {
	of *turns
	// reader: the call works while the callback of Train runs.
	reader bool
}

// enter waits for the turn of a call; call names it. reads says that the call only reads the state.
func (t *turns) enter(ctx context.Context, call string, reads bool) (*turn, error) {
	first := true
	mine := &turn{of: t}
	err := t.await(ctx, func() (bool, error) {
		switch {
		case t.closed:
			return false, executor.AfterClose()
		case first && t.callback && !reads:
			return false, executor.RefuseInCallback(call)
		}
		first = false
		mine.reader = t.callback && reads && !t.reading
		return !t.busy || mine.reader, nil
	})
	if err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	if mine.reader {
		t.reading = true
	} else {
		t.busy = true
	}
	return mine, nil
}

// leave ends a turn. ends reports whether the caller must end the executor before it calls leave again: its callback has closed the executor.
func (c *turn) leave() (ends bool) {
	t := c.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handed && !c.reader {
		t.handed = false
		return true
	}
	t.change(func() {
		if c.reader {
			t.reading = false
		} else {
			t.busy = false
		}
	})
	return false
}

// close lets no call begin any more. If a callback runs, close returns nil at once, and leave of the call of Train reports that the executor ends. Else
// it waits for the call that works and returns a turn; nil when the executor was closed before.
func (t *turns) close() *turn {
	var mine *turn
	_ = t.await(context.Background(), func() (bool, error) {
		if t.callback && !t.closed {
			t.change(func() { t.closed, t.handed = true, true })
		}
		return t.callback || !t.busy, nil
	})
	defer t.mu.Unlock()
	if !t.closed {
		t.closed, t.busy = true, true
		mine = &turn{of: t}
	}
	return mine
}

// during makes a callback of Train one that other calls see.
func during[R any](t *turns, each func(R) error) func(R) error {
	if each == nil {
		return nil
	}
	return func(s R) error {
		t.mu.Lock()
		t.change(func() { t.callback = true })
		t.mu.Unlock()
		defer t.callbackEnds() // also when each panics
		err := each(s)
		if t.callbackEnds() {
			return executor.ClosedInCallback()
		}
		return err
	}
}

// callbackEnds lets no reader in any more, waits for the one that works, and reports whether the executor was closed meanwhile.
func (t *turns) callbackEnds() (closed bool) {
	t.mu.Lock()
	t.change(func() { t.callback = false })
	t.mu.Unlock()
	_ = t.await(context.Background(), func() (bool, error) { return !t.reading, nil })
	defer t.mu.Unlock()
	return t.handed
}
