package listen

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// maxSpec bounds a JobSpec with its program.
const maxSpec = 1 << 30

// Server is the Listener service over a Manager.
type Server struct {
	rpc.UnimplementedListenerServer
	Manager *Manager
	Local   launch.Launcher // starts roles that other listeners send here; nil refuses them
	Version string
	Node    string
}

// Describe tells what this listener can run.
func (s *Server) Describe(context.Context, *rpc.DescribeRequest) (*rpc.DescribeResponse, error) {
	return &rpc.DescribeResponse{Version: s.Version, Registry: ops.Fingerprint(), Ops: ops.Hashes(), Protocol: wire.Protocol, Build: thisbuild.Name(), Node: s.Node, Now: time.Now().UnixNano(),
		Durable: s.Manager.cfg.Kept != nil, Offers: offersOf(s.Manager.queue)}, nil
}

// Submit takes a job. If the answer cannot be delivered, nobody knows the id of the job, and it is stopped.
func (s *Server) Submit(stream grpc.ClientStreamingServer[rpc.SubmitRequest, rpc.SubmitResponse]) error {
	spec := &job.JobSpec{}
	coming := upload{of: &s.Manager.budget, by: callerOf(stream.Context())}
	defer coming.end()
	err := coming.receive(spec, maxSpec, uploadSilence, func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetPiece(), err
	})
	if err != nil {
		return err
	}
	if err := checkFiles(stream.Context(), s.Manager, spec); err != nil {
		return err
	}
	j, err := s.Manager.Start(stream.Context(), spec)
	if err != nil {
		return err
	}
	err = stream.SendAndClose(&rpc.SubmitResponse{Job: j.ID})
	if err != nil || stream.Context().Err() != nil {
		s.Manager.discard(stream.Context(), j)
	}
	return err
}

// Status tells how far a job is. It asks the servers of the job first.
func (s *Server) Status(ctx context.Context, m *rpc.JobRequest) (*job.JobStatus, error) {
	j, err := seen(ctx, s.Manager, m.Job)
	if err != nil {
		return nil, err
	}
	j.refresh(ctx)
	return j.Status(), nil
}

// Watch streams the events of a job, from the oldest that is kept. The client that feeds a job is told of no steps: each has been its answer.
func (s *Server) Watch(m *rpc.JobRequest, stream grpc.ServerStreamingServer[rpc.Events]) error {
	j, err := seen(stream.Context(), s.Manager, m.Job)
	if err != nil {
		return err
	}
	if m.Follows { // it holds the job back, or lets it go on
		if err := callerOf(stream.Context()).mayAct(jobspec.NamespaceOf(j.ID), j.owner, "job "+j.ID); err != nil {
			return err
		}
		j.followers.change(+1, false)
		defer j.followers.change(-1, false)
	}
	ctx, done := whileHere(stream.Context(), s.Manager)
	defer done()
	err = j.events.ReadBatches(ctx, m.From, j.limits.Tell, func(number uint64, events []*job.Event) error {
		next := number + uint64(len(events))
		if m.Follows && j.spec.Fed {
			events = slices.DeleteFunc(slices.Clone(events), func(e *job.Event) bool { return e.GetStep() != nil })
		}
		if len(events) == 0 {
			return nil
		}
		if m.Scalars {
			events = scalarsOf(events)
		}
		return stream.Send(&rpc.Events{Events: events, Number: next - uint64(len(events))})
	})
	return orAway(ctx, err)
}

// maxScalar bounds a fetched value that a watcher of scalars is told, in bytes of its stream: some numbers, with the head.
const maxScalar = 128

// scalarsOf returns events whose steps have fetched small values only.
func scalarsOf(events []*job.Event) []*job.Event {
	large := func(v *job.Value) bool { return len(v.Stream) > maxScalar }
	out := slices.Clone(events)
	for i, e := range out {
		s := e.GetStep()
		if s == nil || !slices.ContainsFunc(s.Fetched, large) {
			continue
		}
		out[i] = &job.Event{What: &job.Event_Step{Step: &job.Step{Pass: s.Pass, Step: s.Step, Rows: s.Rows, Trainers: s.Trainers, Repeated: s.Repeated,
			Attempt: s.Attempt, Resumed: s.Resumed, Unreported: s.Unreported, Dropped: s.Dropped, Fetched: slices.DeleteFunc(slices.Clone(s.Fetched), large)}}}
	}
	return out
}

// Logs streams what the roles of a job wrote.
func (s *Server) Logs(m *rpc.LogsRequest, stream grpc.ServerStreamingServer[rpc.LogLine]) error {
	j, err := seen(stream.Context(), s.Manager, m.Job)
	if err != nil {
		return err
	}
	ctx, done := whileHere(stream.Context(), s.Manager)
	defer done()
	err = j.logs.Read(ctx, m.From, m.Follow, func(number uint64, l *rpc.LogLine) error {
		if m.Role != "" && l.Role != m.Role {
			return nil
		}
		return stream.Send(&rpc.LogLine{Role: l.Role, Line: l.Line, Number: number, Start: l.Start})
	})
	return orAway(ctx, err)
}

// Stop ends a job.
func (s *Server) Stop(ctx context.Context, m *rpc.JobRequest) (*job.JobStatus, error) {
	j, err := acted(ctx, s, m.Job)
	if err == nil {
		err = j.Stop(ctx)
	}
	if err != nil {
		return nil, err
	}
	return j.Status(), nil
}

// Checkpoint makes a checkpoint of a job, which goes on.
func (s *Server) Checkpoint(ctx context.Context, m *rpc.JobRequest) (*job.CheckpointStatus, error) {
	j, err := acted(ctx, s, m.Job)
	if err != nil {
		return nil, err
	}
	return save(ctx, j)
}

// ResumeJob starts a job again.
func (s *Server) ResumeJob(ctx context.Context, m *rpc.ResumeJobRequest) (*rpc.ResumeJobResponse, error) {
	j, err := s.Manager.Resume(ctx, m)
	if err != nil {
		return nil, err
	}
	r := &rpc.ResumeJobResponse{Job: j.ID, Progress: goesOnFrom(j)}
	if keepsLast(j) {
		r.Last = j.spec.Checkpoints.Store
	}
	return r, nil
}

// Why tells what a job waits for.
func (s *Server) Why(ctx context.Context, m *rpc.JobRequest) (*rpc.WhyResponse, error) {
	j, err := seen(ctx, s.Manager, m.Job)
	if err != nil {
		return nil, err
	}
	return j.Why(ctx), nil
}

// Show tells all that is known of a job.
func (s *Server) Show(m *rpc.JobRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	j, err := seen(stream.Context(), s.Manager, m.Job)
	if err != nil {
		return err
	}
	var d *rpc.JobDetails
	switch {
	case m.Entries:
		d, err = j.ShowEntries(stream.Context())
	case m.Known:
		d = known(j)
		d.Waits = waitsOf(j)
	default:
		d = j.Show(stream.Context())
		d.Status.Resumable = mayResume(stream.Context(), s.Manager, j, true)
		hideGone(stream.Context(), j, d)
	}
	if err != nil {
		return err
	}
	if m.Rounds || m.Traces {
		d.Times = j.Times(m.Rounds, m.Traces, m.Sampled)
	}
	if m.Programs {
		d.Programs = programsOf(j)
	}
	return wire.Send(stream, d)
}

// Scale changes how many trainers a job wants, or how many pservers it has.
func (s *Server) Scale(ctx context.Context, m *rpc.ScaleRequest) (*job.JobStatus, error) {
	j, err := acted(ctx, s, m.Job)
	if err == nil && m.Trainers != 0 {
		err = j.Scale(ctx, m.Trainers)
	}
	if err == nil && m.Pservers != 0 {
		err = scaleServers(ctx, j, m.Pservers)
	}
	if err != nil {
		return nil, err
	}
	return j.Status(), nil
}

// Finish ends a job in good order.
func (s *Server) Finish(ctx context.Context, m *rpc.FinishRequest) (*job.JobStatus, error) {
	j, err := acted(ctx, s, m.Job)
	if err == nil {
		err = j.Finish(ctx, m.AfterStep, m.WithoutSave)
	}
	if err != nil {
		return nil, err
	}
	return j.Status(), nil
}

// Acknowledge says how far the follower of a job has come.
func (s *Server) Acknowledge(ctx context.Context, m *rpc.AcknowledgeRequest) (*rpc.AcknowledgeResponse, error) {
	j, err := acted(ctx, s, m.Job)
	if err != nil {
		return nil, err
	}
	j.followers.change(0, false)
	return &rpc.AcknowledgeResponse{}, j.acks.add(m)
}

// StartRole runs a role that another listener sends.
func (s *Server) StartRole(stream grpc.BidiStreamingServer[rpc.StartRoleChunk, rpc.RoleEvent]) error {
	if s.Local == nil {
		return fault.E(fault.Unsupported, fault.Got("a role for a listener that takes whole jobs only"),
			fault.Want("a listener that was started with --join"))
	}
	if name, asked := wire.Caller(stream.Context()); asked && name.Kind != credential.Listener {
		return fault.E(fault.Denied, fault.Got("a role from "+name.String()), fault.Want("one from another listener"))
	}
	return launch.ServeRole(stream, s.Local)
}

// RunStep passes one fed step, or the reading of variables, on to the job's coordinator, and its answer back, piece by piece.
func (s *Server) RunStep(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return fault.E(fault.Corrupt, fault.Got("a stream without a message"))
	}
	if err != nil {
		return err
	}
	j, err := acted(stream.Context(), s, first.GetId().GetJob())
	if err != nil {
		return err
	}
	if !j.spec.Fed && j.spec.MaxAhead == 0 && !j.spec.Evaluation.GetWaits() {
		return fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a feed for a job that reads its own data"),
			fault.Want("a job without data"))
	}
	j.followers.change(+1, false)
	defer j.followers.change(-1, false)
	client, err := j.coordinator(stream.Context())
	if err != nil {
		return err
	}
	feed, err := client.Feed(stream.Context())
	if err != nil {
		return stepError(stream.Context(), j, wire.FromStatus("coordinator", err))
	}
	if err := forward(stream, feed, &rpc.Piece{Id: identityOf(j), Piece: first.Piece}); err != nil {
		return err
	}
	for {
		piece, err := feed.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return stepError(stream.Context(), j, wire.FromStatus("coordinator", err))
		}
		if err := stream.Send(piece); err != nil {
			return err
		}
	}
}

// stepError is what the caller of a step is told of an error of the coordinator. If the coordinator is gone and another one will follow, the caller is
// told at once, and asks again. If the job is about to end because its client was gone, the caller is told when it has ended.
func stepError(ctx context.Context, j *Job, err error) error {
	if j.followers.abandoned() != nil {
		err = fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a step for a job that ends"), fault.Cause(err))
		return j.orFailure(ctx, err)
	}
	if errors.Is(err, fault.Unavailable) && j.spec.MaxRestarts > 0 && !j.Ended() {
		return err
	}
	return j.orFailure(ctx, err)
}

// forward passes a request on, from its first piece. It returns an error when it cannot receive. When it cannot send, the answer explains that.
func forward(from grpc.BidiStreamingServer[rpc.Piece, rpc.Piece], to grpc.BidiStreamingClient[rpc.Piece, rpc.Piece], piece *rpc.Piece) error {
	for {
		if err := to.Send(piece); err != nil {
			return nil
		}
		next, err := from.Recv()
		if errors.Is(err, io.EOF) {
			_ = to.CloseSend()
			return nil
		}
		if err != nil {
			return err
		}
		piece = &rpc.Piece{Piece: next.Piece}
	}
}
