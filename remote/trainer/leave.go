package trainer

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// leaveTime bounds the last message of a trainer that ends before its work is done. Whoever told it to end waits for little more: a listener that
// stops a job gives its roles 3 seconds, of which the end of the membership may take 2.
const leaveTime = time.Second

// seekTime is for how long a trainer that has done all its work looks for a coordinator that is gone.
const seekTime = 5 * time.Second

// ErrUnheard is how a trainer ends that has not found a coordinator to tell its end to: alone when it has done all its work, of which the servers
// know, and beside fault.Drained. Its membership must not end in order: a coordinator hears of what members say themselves, and of their loss.
var ErrUnheard = errors.New("no coordinator has heard that the trainer leaves")

// leave is the trainer's last word, and returns how it ended. It is sent also when ctx has ended, because the coordinator should not have to guess;
// one that is gone is waited for, but not long, by a trainer that has done all its work. One that is told to end before anybody has heard of it has
// nobody to take leave of.
func (t *Trainer) leave(ctx context.Context, err error) error {
	err = t.outcome(ctx, err)
	drained := errors.Is(err, fault.Drained)
	m := &rpc.LeaveRequest{Drained: drained}
	switch {
	case errors.Is(err, fault.Fenced), !t.members.known && (drained || ctx.Err() != nil):
		return err
	case err == nil:
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		if !drained {
			m.Failure = wire.FailureOf(err)
		}
	}
	say := func(ctx context.Context, attempt uint32) error {
		m.Id = t.id(0, attempt)
		_, err := t.cfg.Coordinator.Leave(ctx, m, grpc.WaitForReady(false))
		return err
	}
	if err != nil {
		if say(ctx, 0) != nil && drained { // a failure is followed by another start, of which the coordinator hears
			return errors.Join(err, ErrUnheard)
		}
		return err
	}
	ask := t.ask
	ask.patience = min(ask.patience, seekTime)
	if err = ask.call(ctx, question{"coordinator", "leave"}, say); errors.Is(err, fault.Unavailable) {
		t.cfg.Log.Warn("nobody has heard that this trainer leaves", "reason", err.Error())
		return ErrUnheard
	}
	return err
}

// outcome says why a trainer has ended, where err is only what followed from it: a lost lease, a drain, or, in async mode, having been given up.
func (t *Trainer) outcome(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	kind := fault.KindOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, fault.Fenced):
		return cause
	case t.ask.draining() && slices.Contains(followsFromDrain, kind):
		return fault.E(fault.Drained, fault.Got("the request to end before the data does"))
	case kind == fault.Canceled && cause != nil && fault.KindOf(cause) != fault.Internal:
		return cause
	case kind == fault.Stale && !t.cfg.Sync:
		return fault.E(fault.Fenced, fault.Got("that this trainer was given up: "+err.Error()), fault.Hint("start the role again"))
	}
	return err
}

// followsFromDrain are the errors that a trainer may meet which ends together with those around it.
var followsFromDrain = []fault.Kind{fault.Drained, fault.Canceled, fault.Unavailable, fault.DeadlineExceeded, fault.Superseded, fault.Stale,
	fault.LostMember}
