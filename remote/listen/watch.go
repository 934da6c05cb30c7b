package listen

import (
	"context"
	"errors"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// watch takes over the events of the job's coordinators, one after the other, until ctx has ended. drained has a value when the last one has told
// all that it had to tell.
func (j *Job) watch(ctx context.Context, client rpc.CoordinatorClient, drained chan struct{}) {
	again(ctx, func() error {
		stream, err := client.Watch(ctx, &rpc.WatchRequest{Job: j.ID})
		for number := 0; err == nil; number++ {
			var e *job.Event
			if e, err = stream.Recv(); err == nil {
				j.take(e, number)
			}
		}
		if errors.Is(err, io.EOF) {
			select {
			case drained <- struct{}{}:
			default:
			}
		}
		return err
	})
}

// take enters one event of the coordinator, which has a number in its stream.
func (j *Job) take(e *job.Event, number int) {
	j.mu.Lock()
	if s := e.GetStatus(); s != nil {
		j.reported = wire.FaultOf(s.Failure)
		j.mu.Unlock()
		return
	}
	step := e.GetStep()
	if step == nil || !j.isNew(step, number) {
		j.mu.Unlock()
		return
	}
	first := j.status.State != job.State_RUNNING
	j.status.State = job.State_RUNNING
	j.status.Pass, j.status.Steps = step.Pass, step.Step+1
	j.status.Records += step.Rows
	j.crew.machine.Progress()
	j.mu.Unlock()
	if first {
		j.setState(job.State_RUNNING, nil)
	}
	j.events.Add(e)
}

// isNew reports whether a step is not known yet: a connection that was made again tells all from the first step on, and in sync mode a coordinator that was started
// again may tell the last ones once more. In async mode it counts from 0, and its steps are numbered on. j.mu is held.
func (j *Job) isNew(step *job.Step, number int) bool {
	if j.spec.Mode == job.Mode_SYNC {
		if step.Step < j.next {
			return false
		}
		j.next = step.Step + 1
		return true
	}
	if starts := j.crew.machine.StartsOf(cluster.Member{Role: job.Role_COORDINATOR}); starts != j.teller {
		j.teller, j.taken = starts, 0
	}
	if number < j.taken {
		return false
	}
	j.taken = number + 1
	step.Step = j.next
	j.next++
	return true
}

// session returns the coordinator of an interactive job, waiting until the job has begun.
func (j *Job) session(ctx context.Context) (rpc.CoordinatorClient, error) {
	if !j.spec.Interactive {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: "job " + j.ID, Got: "a feed for a job that reads its own data", Want: "a job without data"}
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
	return nil, &fault.Fault{Kind: fault.Unavailable, Where: "job " + j.ID, Got: "a job that has ended"}
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
