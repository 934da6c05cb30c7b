package listen

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// session returns the coordinator of an interactive job, waiting until the job has begun.
func (j *Job) session(ctx context.Context) (rpc.CoordinatorClient, error) {
	if !j.spec.Fed {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a feed for a job that reads its own data"),
			fault.Want("a job without data"))
	}
	select {
	case <-j.manned:
	case <-j.done:
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
	j.mu.Lock()
	c := j.crew
	j.mu.Unlock()
	if c != nil {
		return c.peers.coordinator, nil
	}
	if err := j.Wait(ctx); err != nil { // its roles have ended, and soon it is known why
		return nil, err
	}
	return nil, fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a job that has ended"))
}

// identity is that of the job's messages.
func (j *Job) identity() *rpc.Identity {
	return wire.Identity{Job: j.ID, Program: j.plan.hash[:]}.Of(0, 0, 0)
}

// Finish ends an interactive job in good order and waits for its end.
func (j *Job) Finish(ctx context.Context) error {
	client, err := j.session(ctx)
	if err != nil {
		return err
	}
	if _, err := client.CloseFeed(ctx, &rpc.CloseFeedRequest{Id: j.identity()}); err != nil {
		return j.orFailure(ctx, wire.FromStatus("coordinator", err))
	}
	return j.Wait(ctx)
}
