package remote

import (
	"context"
	"strings"

	"google.golang.org/grpc"

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

// Dial connects to a listener and compares the registries of ops: programs travel only between equal ones. A listener that refuses the connection is
// no listener: neither Dial nor the calls of the client wait for one to come. One that falls silent during a call ends it, as package wire says.
func Dial(ctx context.Context, address string) (*Client, error) {
	conn, err := wire.Dial(address)
	if err != nil {
		return nil, err
	}
	c := &Client{address: "listener " + address, conn: conn, service: rpc.NewListenerClient(prompt{conn})}
	d, err := c.service.Describe(ctx, &rpc.DescribeRequest{})
	if err == nil && d.Registry != ops.Fingerprint() {
		err = fault.E(fault.Unsupported, fault.At(c.address), fault.Got("ops "+d.Registry+" of version "+d.Version),
			fault.Want("ops "+ops.Fingerprint()), fault.Hint("run the same version of edl on both sides"))
	}
	if err != nil {
		conn.Close()
		return nil, c.at(err)
	}
	return c, nil
}

// prompt is a connection whose calls do not wait for a listener to come: another one would not know their jobs.
type prompt struct{ *grpc.ClientConn }

func (p prompt) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return p.ClientConn.Invoke(ctx, method, args, reply, append(options, grpc.WaitForReady(false))...)
}

func (p prompt) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return p.ClientConn.NewStream(ctx, d, method, append(options, grpc.WaitForReady(false))...)
}

// Close ends the connection. Jobs go on.
func (c *Client) Close() error { return c.conn.Close() }

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
	_, err := c.service.Finish(ctx, &rpc.FinishRequest{Job: id})
	return c.at(err)
}

// at makes a fault of what the transport returned, naming the listener.
func (c *Client) at(err error) error { return wire.FromStatus(c.address, err) }
