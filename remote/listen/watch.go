package listen

import (
	"context"
	"errors"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// watch takes over the events of the job's coordinators, one after the other, until ctx has ended. drained has a value when the last one has told
// all that it had to tell.
func (j *Job) watch(ctx context.Context, client rpc.CoordinatorClient, drained chan struct{}) {
	again(ctx, func() error {
		stream, err := client.Watch(ctx, &rpc.WatchRequest{Job: j.ID})
		for err == nil {
			var e *job.Event
			if e, err = stream.Recv(); err == nil {
				j.take(e)
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

// take enters one event of the coordinator. A coordinator that was started again, and a connection that was made again, may tell what is known already.
func (j *Job) take(e *job.Event) {
	j.mu.Lock()
	if s := e.GetStatus(); s != nil {
		j.reported = wire.FaultOf(s.Failure)
		j.mu.Unlock()
		return
	}
	step := e.GetStep()
	if step.Step < j.next {
		j.mu.Unlock()
		return
	}
	j.next = step.Step + 1
	first := j.status.State != job.State_RUNNING
	j.status.State = job.State_RUNNING
	j.status.Pass, j.status.Steps = step.Pass, j.status.Steps+1
	j.status.Records += step.Rows
	j.mu.Unlock()
	if first {
		j.setState(job.State_RUNNING, nil)
	}
	j.events.Add(e)
}

// session returns the coordinator of an interactive job.
func (j *Job) session() (rpc.CoordinatorClient, error) {
	if !j.spec.Interactive {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: "job " + j.ID, Got: "a feed for a job that reads its own data", Want: "a job without data"}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.crew == nil || j.Ended() {
		if err := wire.FaultOf(j.status.Failure); err != nil {
			return nil, err
		}
		return nil, &fault.Fault{Kind: fault.Unavailable, Where: "job " + j.ID, Got: "a job that has ended"}
	}
	return j.crew.peers.coordinator, nil
}

// identity is that of the job's messages.
func (j *Job) identity() *rpc.Identity {
	return wire.Identity{Job: j.ID, Program: j.plan.hash[:]}.Of(0, 0, 0)
}

// Finish ends an interactive job in good order and waits for its end.
func (j *Job) Finish(ctx context.Context) error {
	client, err := j.session()
	if err != nil {
		return err
	}
	if _, err := client.CloseFeed(ctx, &rpc.CloseFeedRequest{Id: j.identity()}); err != nil {
		return err
	}
	return j.Wait(ctx)
}
