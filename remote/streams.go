package remote

import (
	"context"
	"errors"
	"io"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Submit sends a job and returns its id.
func (c *Client) Submit(ctx context.Context, spec *job.JobSpec) (string, error) {
	ctx, cancel := context.WithCancel(ctx) // a stream that is given up ends with it
	defer cancel()
	stream, err := c.service.Submit(ctx)
	if err != nil {
		return "", c.at(err)
	}
	err = wire.SendPieces(spec, func(piece []byte) error { return stream.Send(&rpc.SubmitRequest{Piece: piece}) })
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the listener has ended the stream, and says why
		return "", c.at(err)
	}
	r, err := stream.CloseAndRecv()
	return r.GetJob(), c.at(err)
}

// Watch calls each with every event of a job from the first that the listener has kept on, until the job has ended, and returns its last status. An
// error of each ends the watching, not the job.
func (c *Client) Watch(ctx context.Context, id string, each func(*job.Event) error) (*job.JobStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.Watch(ctx, &rpc.JobRequest{Job: id})
	if err != nil {
		return nil, c.at(err)
	}
	var last *job.JobStatus
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) && last != nil {
			return last, nil
		}
		if err != nil {
			return last, c.at(err)
		}
		if s := e.GetStatus(); s != nil {
			last = s
		}
		if err := each(e); err != nil {
			return last, err
		}
	}
}

// Logs calls each with what the roles of a job wrote; role may name one of them, and follow waits for more until the job has ended.
func (c *Client) Logs(ctx context.Context, id, role string, follow bool, each func(role, line string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.Logs(ctx, &rpc.LogsRequest{Job: id, Role: role, Follow: follow})
	for err == nil {
		var l *rpc.LogLine
		if l, err = stream.Recv(); err == nil {
			err = each(l.Role, l.Line)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return c.at(err)
}

// runStep runs one step of an interactive job.
func (c *Client) runStep(ctx context.Context, id string, run *rpc.StepRun) (*job.Step, error) {
	step, err := wire.RunStep(ctx, c.address, c.service.RunStep, &rpc.Identity{Job: id}, run)
	return step, c.at(err)
}
