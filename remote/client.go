package remote

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Client speaks to one listener. It is safe for concurrent use.
type Client struct {
	address string
	conn    *grpc.ClientConn
	service rpc.ListenerClient
}

// Dial connects to a listener and compares the registries of ops: programs travel only between equal ones. A listener that refuses the connection is no
// listener: Dial does not wait for one to come.
func Dial(ctx context.Context, address string) (*Client, error) {
	conn, err := wire.Dial(address)
	if err != nil {
		return nil, err
	}
	c := &Client{address: "listener " + address, conn: conn, service: rpc.NewListenerClient(conn)}
	d, err := c.service.Describe(ctx, &rpc.DescribeRequest{}, grpc.WaitForReady(false))
	if err == nil && d.Registry != ops.Fingerprint() {
		err = &fault.Fault{Kind: fault.Unsupported, Where: c.address, Got: "ops " + d.Registry + " of version " + d.Version, Want: "ops " + ops.Fingerprint(), Hint: "run the same version of edl on both sides"}
	}
	if err != nil {
		conn.Close()
		return nil, c.at(err)
	}
	return c, nil
}

// Close ends the connection. Jobs go on.
func (c *Client) Close() error { return c.conn.Close() }

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

// Status returns how far a job is.
func (c *Client) Status(ctx context.Context, id string) (*job.JobStatus, error) {
	s, err := c.service.Status(ctx, &rpc.JobRequest{Job: id})
	return s, c.at(err)
}

// Jobs returns the jobs that the listener remembers.
func (c *Client) Jobs(ctx context.Context) ([]*job.JobStatus, error) {
	r, err := c.service.List(ctx, &rpc.ListRequest{})
	return r.GetJobs(), c.at(err)
}

// Watch calls each with every event of a job from the first on, until the job has ended, and returns its last status. An error of each
// ends the watching, not the job.
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

// Why tells what a job waits for, the root of the matter first.
func (c *Client) Why(ctx context.Context, id string) (*rpc.WhyResponse, error) {
	r, err := c.service.Why(ctx, &rpc.JobRequest{Job: id})
	return r, c.at(err)
}

// Show returns all that is known of a job, also of one that has ended.
func (c *Client) Show(ctx context.Context, id string) (*rpc.JobDetails, error) {
	return wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id})
}

// Entries returns what the coordinator of a job that runs has made durable, by key.
func (c *Client) Entries(ctx context.Context, id string) (map[string][]byte, error) {
	d, err := wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id, Entries: true})
	return d.GetQueues().GetEntries(), err
}

// Scale changes how many trainers an elastic job wants.
func (c *Client) Scale(ctx context.Context, id string, trainers int) (*job.JobStatus, error) {
	s, err := c.service.Scale(ctx, &rpc.ScaleRequest{Job: id, Trainers: int32(trainers)})
	return s, c.at(err)
}

// Address is where the listener is.
func (c *Client) Address() string { return strings.TrimPrefix(c.address, "listener ") }

// Stop ends a job before its time.
func (c *Client) Stop(ctx context.Context, id string) error {
	_, err := c.service.Stop(ctx, &rpc.JobRequest{Job: id})
	return c.at(err)
}

// Finish ends an interactive job in good order.
func (c *Client) Finish(ctx context.Context, id string) error {
	_, err := c.service.Finish(ctx, &rpc.JobRequest{Job: id})
	return c.at(err)
}

// runStep runs one step of an interactive job.
func (c *Client) runStep(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.RunStep(ctx)
	if err != nil {
		return nil, c.at(err)
	}
	if err := sendAll(stream, run); err != nil && !errors.Is(err, io.EOF) {
		return nil, c.at(err)
	}
	done := &rpc.StepDone{}
	err = wire.ReceivePieces(done, maxStep, func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetPiece(), err
	})
	return done.Step, c.at(err)
}

// maxStep bounds the encoded fetches of one step.
const maxStep = 1 << 30

func sendAll(stream grpc.BidiStreamingClient[rpc.StepChunk, rpc.StepChunk], m proto.Message) error {
	if err := wire.SendPieces(m, func(piece []byte) error { return stream.Send(&rpc.StepChunk{Piece: piece}) }); err != nil {
		return err
	}
	return stream.CloseSend()
}

// at makes a fault of what the transport returned, naming the listener.
func (c *Client) at(err error) error { return wire.FromStatus(c.address, err) }
