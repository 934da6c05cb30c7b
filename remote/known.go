package remote

import (
	"context"
	"errors"
	"io"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Known returns what the listener knows of a job, with its waits and where the time of its last rounds went. Unlike Client.Show and Client.Why it asks no
// server of the job, so it costs the job nothing; what it returns is at most a second or two old.
func Known(ctx context.Context, c *Client, id string) (*rpc.JobDetails, error) {
	return wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id, Known: true, Rounds: true})
}

// Sampled returns what the listener knows of a job with the last rounds that it traces, of all roles; see WithTracedRounds. Like Known it costs the job nothing.
func Sampled(ctx context.Context, c *Client, id string) (*rpc.JobDetails, error) {
	return wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id, Known: true, Rounds: true, Sampled: true})
}

// Programs returns the programs of a job that runs, encoded; nil after its end.
func Programs(ctx context.Context, c *Client, id string) (*rpc.Programs, error) {
	d, err := wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id, Known: true, Programs: true})
	return d.GetPrograms(), err
}

// WatchScalars calls each with the events of a job from a number on, some at a time, and returns when the job has ended, each returns an error, or the stream
// breaks. Values of more than 128 bytes that steps have fetched are left out. The first event of all is number 0; those that the listener has forgotten are
// skipped.
func WatchScalars(ctx context.Context, c *Client, id string, from uint64, each func(number uint64, events []*job.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.Watch(ctx, &rpc.JobRequest{Job: id, From: from, Scalars: true})
	for err == nil {
		var some *rpc.Events
		if some, err = stream.Recv(); err == nil {
			err = each(some.Number, some.Events)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return c.at(err)
}
