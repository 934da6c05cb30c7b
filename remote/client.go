package remote

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/grpc"
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

// Job is a job that was submitted.
type Job struct {
	ID     string
	client *Client
	fetch  []string
}

// stopTime bounds the stopping of a job whose follower has given up.
const stopTime = 20 * time.Second

// Follow calls each, which may be nil, with every step from the first on, and returns when the job has ended, with the reason when it failed. When
// ctx ends, or each returns an error, the job is stopped. A job that has lost a pserver begins again: each is then called with step 0 once more, and
// the summary is that of the last history. A step that no trainer lived to report, or without one of the values that the job fetches, or that the
// listener has forgotten before it was read, because each is slower than the job, is counted in the summary, and each is not called; of the first it
// is not known how many records it had.
func (j *Job) Follow(ctx context.Context, each func(executor.StepResult) error) (executor.Summary, error) {
	var summary executor.Summary
	status, err := j.client.Watch(ctx, j.ID, func(e *job.Event) error {
		if e.GetStatus().GetState() == job.State_STARTING {
			summary = executor.Summary{} // the first beginning, or a new one
		}
		step := e.GetStep()
		if step == nil {
			return nil
		}
		summary.Steps = step.Step + 1 // steps are numbered without gaps, though not all are told
		summary.Records += step.Rows
		summary.Passes = max(summary.Passes, int(step.Pass)+1)
		if each == nil || len(step.Fetched) < len(j.fetch) {
			return nil
		}
		fetched, err := decodeAll(step.Fetched, j.fetch)
		if err != nil {
			return err
		}
		return each(executor.StepResult{Pass: int(step.Pass), Step: step.Step, Rows: step.Rows, Trainers: int(step.Trainers),
			Unreported: step.Unreported, Fetched: fetched})
	})
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		_ = j.client.Stop(stop, j.ID) // the first error tells more
		return summary, err
	}
	summary.Records = status.Records // the listener has heard of all steps that it could
	summary.Elapsed = time.Duration(status.Seconds * float64(time.Second))
	return summary, wire.FaultOf(status.Failure)
}

// decodeAll returns values in the order of names. A step in which nothing was fetched, because it had no rows, gives none.
func decodeAll(values []*job.Value, names []string) ([]*tensor.Tensor, error) {
	if len(values) == 0 {
		return nil, nil
	}
	byName := map[string]*job.Value{}
	for _, v := range values {
		byName[v.Name] = v
	}
	out := make([]*tensor.Tensor, len(names))
	for i, name := range names {
		v, ok := byName[name]
		if !ok {
			return nil, fault.E(fault.Internal, fault.Var(name), fault.Gotf("%d fetched values without it", len(values)))
		}
		t, _, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil {
			return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		out[i] = t
	}
	return out, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
