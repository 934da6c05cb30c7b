package listen

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// watch follows the coordinator and takes over its events, until it has ended or ctx has.
func (j *Job) watch(ctx context.Context, registry cluster.Registry) {
	address, err := registry.Coordinator(ctx)
	if err != nil {
		return // the job has ended before its coordinator was there
	}
	conn, err := wire.Dial(address)
	if err != nil {
		return
	}
	defer conn.Close()
	client := rpc.NewCoordinatorClient(conn)
	j.mu.Lock()
	j.coordinator = client
	close(j.connected)
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		j.coordinator = nil
		j.mu.Unlock()
	}()
	stream, err := client.Watch(ctx, &rpc.WatchRequest{Job: j.ID})
	for err == nil {
		var e *job.Event
		if e, err = stream.Recv(); err == nil {
			j.take(e)
		}
	}
}

// take enters one event of the coordinator.
func (j *Job) take(e *job.Event) {
	j.mu.Lock()
	if s := e.GetStatus(); s != nil {
		j.reported = wire.FaultOf(s.Failure)
		j.mu.Unlock()
		return
	}
	step := e.GetStep()
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

// session returns the coordinator of an interactive job, waiting for it.
func (j *Job) session(ctx context.Context) (rpc.CoordinatorClient, error) {
	if !j.spec.Interactive {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: "job " + j.ID, Got: "a feed for a job that reads its own data", Want: "a job without data"}
	}
	select {
	case <-j.connected:
	case <-j.done:
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.coordinator == nil || j.Ended() {
		if err := wire.FaultOf(j.status.Failure); err != nil {
			return nil, err
		}
		return nil, &fault.Fault{Kind: fault.Unavailable, Where: "job " + j.ID, Got: "a job that has ended"}
	}
	return j.coordinator, nil
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
		return err
	}
	return j.Wait(ctx)
}
