package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// Client speaks to one listener. It is safe for concurrent use.
type Client struct {
	address string
	conn    *grpc.ClientConn
	service rpc.ListenerClient
	durable bool              // the jobs of the listener outlive it
	notice  func(text string) // of WithNotice
	away    outage
}

// Dial connects to a listener and compares the registries of ops: programs travel only between equal ones. If nobody listens at the address, Dial and
// the calls of the client fail at once. Several addresses, separated by commas, are those of a listener and of the ones that take its place: the first that answers is
// spoken to, and when it is lost, the next one. If the listener falls silent during a call, the call fails, as package wire says.
//
// The client shows the listener the token of WithTokenUse, the credentials of WithCredentials, or those of a user that the authority of WithAuthority issues. Without these, the
// environment says what it shows: the credentials of credential.UserFile, the token of credential.UserTokenFiles, or else credentials of the authority of credential.File.
func Dial(ctx context.Context, address string, options ...Option) (*Client, error) {
	return dial(ctx, address, true, options)
}

// Attach is Dial for a listener of any build. The client is for calls that exchange no programs, such as Jobs, Why, Show, Scale and Stop.
func Attach(ctx context.Context, address string, options ...Option) (*Client, error) {
	return dial(ctx, address, false, options)
}

func dial(ctx context.Context, address string, sameOps bool, options []Option) (*Client, error) {
	for one := range strings.SplitSeq(address, ",") {
		if host, port, err := net.SplitHostPort(one); err != nil || host == "" || port == "" {
			return nil, fault.E(fault.InvalidArgument, fault.At("listener"), fault.Gotf("the address %s", fault.Quote(one)), fault.Want("HOST:PORT"),
				fault.Hint("write the address that edl listen prints, such as 127.0.0.1:7164"))
		}
	}
	var o listening
	for _, option := range options {
		option(&o)
	}
	side, err := o.asUser()
	if err != nil {
		return nil, err
	}
	conn, err := wire.Dial(address, side)
	if err != nil {
		return nil, err
	}
	c := &Client{address: "listener " + address, conn: conn, service: rpc.NewListenerClient(prompt{conn}), notice: o.notice}
	d, err := c.service.Describe(ctx, &rpc.DescribeRequest{})
	for try := 1; try < greetings && wire.Silent(err) && ctx.Err() == nil; try++ {
		d, err = c.service.Describe(ctx, &rpc.DescribeRequest{})
	}
	if err == nil && sameOps && d.Registry != ops.Fingerprint() {
		err = fault.E(fault.Unsupported, fault.At(c.address), fault.Got("a build with other ops, of version "+d.Version),
			fault.Want("the ops of this build"), fault.Hint(cmp.Or(ops.Difference(d.Ops), "it has the ops "+d.Registry+", and this build "+ops.Fingerprint())+
				"; run the same version of edl on both sides"))
	}
	if err != nil {
		conn.Close()
		return nil, c.at(err)
	}
	c.durable = d.Durable
	return c, nil
}

// greetings is how often a client tries to speak to a listener that takes connections and does not greet: a busy machine may have to let it wait for seconds.
const greetings = 3

// asUser is how a client shows who it is.
func (o *listening) asUser() (*wire.Side, error) {
	if o.shown == nil && o.own == nil && o.authority == nil {
		token, ca, err := credential.UserTokenFiles()
		if token != "" {
			o.shown, err = credential.OpenTokenUse(token, ca)
		}
		if err != nil {
			return nil, err
		}
	}
	if o.shown != nil {
		return wire.ToListenerAs(o.shown), nil
	}
	own, err := o.ofUser()
	if err != nil {
		return nil, err
	}
	return wire.ToListener(own), nil
}

// ofUser returns the credentials of a client.
func (o *listening) ofUser() (*credential.Credentials, error) {
	if o.own != nil {
		return o.own, nil
	}
	authority := o.authority
	if authority == nil {
		if own, err := credential.OpenUser(); own != nil || err != nil {
			return own, err
		}
		file, err := credential.File()
		if err != nil {
			return nil, err
		}
		if authority, err = credential.Open(file); errors.Is(err, fault.NotFound) && !credential.Named() {
			authority, err = credential.NewAuthority() // that no listener knows; but it may be that nobody listens, which is said first
		}
		if err != nil {
			return nil, err
		}
	}
	return authority.IssueRenewing(credential.Name{Kind: credential.User, User: credential.UserName(), Access: credential.Admin}, listen.CredentialLife)
}

// prompt is a connection whose calls fail at once when there is no listener. Another listener that comes later may not know their jobs.
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

// Why tells what a job waits for, the cause of the other waits first.
func (c *Client) Why(ctx context.Context, id string) (*rpc.WhyResponse, error) {
	r, err := c.service.Why(ctx, &rpc.JobRequest{Job: id})
	return r, c.at(err)
}

// Show returns all that is known of a job. The job may have ended.
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

// ScaleServers changes the number of pservers of a job, and returns when the job trains with them. What a sync job computes does not change. A job that is changing
// already, or that is replacing a pserver, begins when that is done, within its start_deadline; then a later call takes the place of one that waits, which fails with
// fault.Superseded. A change that has begun goes on if ctx ends.
func ScaleServers(ctx context.Context, c *Client, id string, servers int) (*job.JobStatus, error) {
	s, err := c.service.Scale(ctx, &rpc.ScaleRequest{Job: id, Pservers: int32(servers)})
	return s, c.at(err)
}

// A Description is what a listener says of itself.
type Description struct {
	Version string
	Node    string        // under which it is offered to other listeners; empty: it is not
	SameOps bool          // it takes programs of this build
	Answer  time.Duration // how long it took to answer
	Ahead   time.Duration // how far its clock is ahead of the clock of this machine, give or take half of Answer
}

// Describe asks the listener of a client what it is.
func Describe(ctx context.Context, c *Client) (Description, error) {
	began := time.Now()
	d, err := c.service.Describe(ctx, &rpc.DescribeRequest{})
	if err != nil {
		return Description{}, c.at(err)
	}
	took := time.Since(began)
	return Description{Version: d.Version, Node: d.Node, SameOps: d.Registry == ops.Fingerprint(), Answer: took,
		Ahead: time.Unix(0, d.Now).Sub(began.Add(took / 2))}, nil
}

// Address is where the listener is.
func (c *Client) Address() string { return strings.TrimPrefix(c.address, "listener ") }

// Stop ends a job before its time.
func (c *Client) Stop(ctx context.Context, id string) error {
	return follow(ctx, c, func(bool) (stop, err error) {
		_, err = c.service.Stop(ctx, &rpc.JobRequest{Job: id})
		return nil, err
	})
}

// Finish ends a job in good order, as if its data ended, and returns its last status. A fed job ends after its feeds, another one as soon as it can.
// With after, the step of that number is the last, unless later steps have begun already. The spec says whether the model is saved and the state is
// kept.
func (c *Client) Finish(ctx context.Context, id string, after *uint64) (*job.JobStatus, error) {
	var s *job.JobStatus
	err := follow(ctx, c, func(bool) (_, err error) {
		s, err = c.service.Finish(ctx, &rpc.FinishRequest{Job: id, AfterStep: after})
		return nil, err
	})
	return s, err
}

// Acknowledge tells a job with max_ahead that its follower is done with all steps of an attempt below a number.
func (c *Client) Acknowledge(ctx context.Context, id string, attempt int32, steps uint64) error {
	return acknowledge(ctx, c, &rpc.AcknowledgeRequest{Job: id, Steps: steps, Attempt: attempt})
}

// acknowledge tells a job how far its follower is.
func acknowledge(ctx context.Context, c *Client, m *rpc.AcknowledgeRequest) error {
	return follow(ctx, c, func(bool) (stop, err error) {
		_, err = c.service.Acknowledge(ctx, m)
		return nil, err
	})
}

// at makes a fault of an error of the transport. The fault names the listener.
func (c *Client) at(err error) error { return wire.Refused(wire.FromStatus(c.address, err)) }

// Submit sends a job and returns its id. When ctx ends before, no job goes on: one that has begun meanwhile is stopped.
func (c *Client) Submit(ctx context.Context, spec *job.JobSpec) (string, error) {
	id, err := sendJob(ctx, c, spec)
	return id, c.at(err)
}

// sendJob is Submit whose error comes straight from the call.
func sendJob(ctx context.Context, c *Client, spec *job.JobSpec) (string, error) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a stream that is given up ends with it
	defer cancel()
	sending := context.AfterFunc(ctx, cancel)
	defer sending()
	stream, err := c.service.Submit(call)
	if err == nil {
		err = wire.SendPieces(spec, func(piece []byte) error { return stream.Send(&rpc.SubmitRequest{Piece: piece}) })
	}
	switch {
	case !sending(): // the listener has not had all of it, and so does not begin the job
		return "", status.FromContextError(ctx.Err()).Err()
	case err != nil && !errors.Is(err, io.EOF): // io.EOF: the listener has ended the stream, and says why
		return "", err
	}
	defer context.AfterFunc(ctx, func() { // the job may have begun, so its id is awaited to stop it
		timer := time.NewTimer(stopTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-call.Done():
		}
	})()
	r, err := stream.CloseAndRecv()
	if ctx.Err() == nil {
		return r.GetJob(), err
	}
	if err == nil {
		discard(ctx, c, r.Job)
	}
	return "", status.FromContextError(ctx.Err()).Err()
}

// discard stops a job that nobody will follow, and releases its state if it has ended before. The listener stops it, too, when it sees that its answer
// is lost.
func discard(ctx context.Context, c *Client, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	s, err := c.service.Stop(ctx, &rpc.JobRequest{Job: id})
	if err == nil && s.State == job.State_SUCCEEDED {
		_ = c.ReleaseState(ctx, id) // if it has left one
	}
}

// Watch calls each with every event of a job, from the first that the listener has kept, and returns the last status when the job has ended. An error
// of each ends Watch, not the job.
func (c *Client) Watch(ctx context.Context, id string, each func(*job.Event) error) (*job.JobStatus, error) {
	return c.watch(ctx, &rpc.JobRequest{Job: id}, nil, each)
}

// watch is Watch. If the stream breaks and the next listener has the job, it goes on after the last event, once again has been called, which may be nil.
func (c *Client) watch(ctx context.Context, m *rpc.JobRequest, again func() error, each func(*job.Event) error) (last *job.JobStatus, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = follow(ctx, c, func(first bool) (stop, err error) {
		if !first && again != nil {
			if stop = again(); stop != nil {
				return stop, nil
			}
		}
		stream, err := c.service.Watch(ctx, m)
		for err == nil {
			var some *rpc.Events
			if some, err = stream.Recv(); err != nil {
				break
			}
			c.away.answered(c)
			for i, e := range some.Events {
				if s := e.GetStatus(); s != nil {
					last = s
				}
				m.From = some.Number + uint64(i) + 1
				if stop = each(e); stop != nil {
					return stop, nil
				}
			}
		}
		if errors.Is(err, io.EOF) && last != nil {
			err = nil
		}
		return nil, err
	})
	return last, err
}

// Logs calls each with every line that the roles of a job wrote, or one of them if role names it. With wait it waits for more until the job has
// ended.
func (c *Client) Logs(ctx context.Context, id, role string, wait bool, each func(role, line string) error) error {
	return linesOf(ctx, c, &rpc.LogsRequest{Job: id, Role: role, Follow: wait}, func(l *rpc.LogLine) error { return each(l.Role, l.Line) })
}

// Lines is Logs with all that is known of a line, such as of which start of its role it is.
func Lines(ctx context.Context, c *Client, id string, wait bool, each func(*rpc.LogLine) error) error {
	return linesOf(ctx, c, &rpc.LogsRequest{Job: id, Follow: wait}, each)
}

func linesOf(ctx context.Context, c *Client, m *rpc.LogsRequest, each func(*rpc.LogLine) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return follow(ctx, c, func(bool) (stop, err error) {
		stream, err := c.service.Logs(ctx, m)
		for err == nil {
			var l *rpc.LogLine
			if l, err = stream.Recv(); err != nil {
				break
			}
			c.away.answered(c)
			m.From = l.Number + 1
			if stop = each(l); stop != nil {
				return stop, nil
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	})
}

// ReadState returns those of the named variables that a kept state of the listener has, and its Progress.
func (c *Client) ReadState(ctx context.Context, state string, names []string) (*rpc.StateValues, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return asked(ctx, c, func() (*rpc.StateValues, error) {
		values := &rpc.StateValues{}
		stream, err := c.service.ReadState(ctx, &rpc.ReadStateRequest{State: state, Names: names})
		if err == nil {
			err = wire.Receive(c.address, stream, values, listen.MaxState)
		}
		return values, err
	})
}

// WriteState makes the listener hold a state, and returns its id.
func (c *Client) WriteState(ctx context.Context, values *rpc.StateValues) (string, error) {
	if n := proto.Size(values); n > listen.MaxState {
		return "", fault.E(fault.TooLarge, fault.At(c.address), fault.Gotf("a state of %d bytes", n), fault.Wantf("at most %d", listen.MaxState),
			fault.Hint("name a directory that the roles can read in TrainOptions.Params"))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := &rpc.StateValues{Namespace: values.Namespace, Progress: values.Progress, Values: values.Values, Confirms: true}
	id, err := asked(ctx, c, func() (string, error) { // one that was written, and its answer lost, is removed in its time
		stream, err := c.service.WriteState(ctx)
		if err != nil {
			return "", err
		}
		if err = wire.Send(stream, sent); err != nil && !errors.Is(err, io.EOF) { // io.EOF: the listener has ended the stream, and says why
			return "", err
		}
		r, err := stream.CloseAndRecv()
		return r.GetState(), err
	})
	if err == nil {
		_, err = c.ReadState(ctx, id, []string{""}) // names the state, and asks for none of its variables
	}
	return id, err
}

// ReleaseState lets the listener forget a state.
func (c *Client) ReleaseState(ctx context.Context, state string) error {
	_, err := c.service.ReleaseState(ctx, &rpc.ReleaseStateRequest{State: state})
	return c.at(err)
}

// runStep runs one step of a fed job exactly once, or gives one up. If the coordinator or the listener is lost meanwhile, runStep asks the next one; the number of the
// step and its call tell the coordinator whether the step has run.
func (c *Client) runStep(ctx context.Context, id string, run *rpc.StepRun) (*rpc.StepDone, error) {
	for pause := stepPause; ; pause = min(2*pause, longStepPause) {
		done, err := wire.RunStep(ctx, c.address, c.service.RunStep, &rpc.Identity{Job: id}, run)
		if err = c.at(err); err == nil || ctx.Err() != nil || !errors.Is(err, fault.Unavailable) {
			return done, err
		}
		s, unknown := statusOf(ctx, c, id)
		if unknown != nil {
			return nil, err
		}
		if ended(s.State) {
			if cause := wire.FaultOf(s.Failure); cause != nil {
				err = cause
			}
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// Pauses between two tries of a step whose coordinator is lost. The listener answers at once, so somebody has to wait.
const (
	stepPause     = 10 * time.Millisecond
	longStepPause = 200 * time.Millisecond
)

func ended(s job.State) bool {
	return s == job.State_SUCCEEDED || s == job.State_FAILED || s == job.State_STOPPED
}

// Checkpoint makes a checkpoint of a job that runs, and returns it when it has all steps that were trained before the call. The job goes on.
func Checkpoint(ctx context.Context, c *Client, id string) (*job.CheckpointStatus, error) {
	last, err := c.service.Checkpoint(ctx, &rpc.JobRequest{Job: id})
	return last, c.at(err)
}

// Suspend lets a job that runs make a checkpoint, end its roles, and wait until Resume. It returns when no role is left.
func Suspend(ctx context.Context, c *Client, id string) error {
	_, err := c.service.SuspendJob(ctx, &rpc.JobRequest{Job: id})
	return c.at(err)
}

// Resume lets a job go on that a user has suspended. It starts a job again that was stopped or has failed, from its last checkpoint, as another job. It returns the id of that job, and how many steps it
// goes on after. A listener without a data folder resumes none. Numbers of roles that are 0 are those of the job, and so is an empty directory to save to.
func Resume(ctx context.Context, c *Client, r *rpc.ResumeJobRequest) (*rpc.ResumeJobResponse, error) {
	started, err := c.service.ResumeJob(ctx, r)
	return started, c.at(err)
}
