package coordinator

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Server is the coordinator of one job: a gRPC service over its parts. Calls wait until Run has read what is durable.
type Server struct {
	unimplemented
	*core
	*stateServer
	*evaluations
	store    *store
	dispatch *dispatch
	follower *follower
	members  *members
	changes  *changes
	steps    *steps
	feeds    *feeds
	ending   *ending
	reader   *stateReader
	overview *overview
	cuts     *cuts
}

// unimplemented lies deeper than the parts that implement calls.
type unimplemented struct {
	rpc.UnimplementedCoordinatorServer
}

// New returns a coordinator.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.FollowEvery = cmp.Or(cfg.FollowEvery, followEvery)
	if b := cfg.Back; b != nil {
		cfg.Begin, cfg.Passes = b.Progress, int(b.Passes)
	}
	cfg.LedgerDeadline = cmp.Or(cfg.LedgerDeadline, ledgerDeadline)
	c := &core{cfg: cfg, epoch: time.Now(), led: make(chan struct{}), done: make(chan struct{}), monitor: waits.Monitor{Where: "coordinator"}}
	s := &Server{core: c, members: newMembers(c), steps: newSteps(c), feeds: newFeeds(c)}
	s.store = &store{core: c, steps: s.steps.written, ops: make(chan *op), queues: map[string]*queue.Queue{}}
	s.dispatch = &dispatch{core: c, store: s.store, members: s.members, idle: map[id.Rank]idleTrainer{}}
	s.follower = &follower{core: c, store: s.store}
	s.changes = &changes{core: c, store: s.store, members: s.members, dispatch: s.dispatch, steps: s.steps, feeds: s.feeds}
	s.ending = &ending{core: c, store: s.store, members: s.members, steps: s.steps, feeds: s.feeds, dispatch: s.dispatch}
	s.evaluations = &evaluations{core: c, members: s.members, steps: s.steps, ending: s.ending}
	s.ending.evaluations, s.members.evaluations = s.evaluations, s.evaluations
	s.reader = &stateReader{core: c, members: s.members, ending: s.ending, evaluations: s.evaluations}
	s.cuts = &cuts{core: c, steps: s.steps, ending: s.ending, over: make(chan struct{})}
	s.changes.mover = &mover{core: c, store: s.store, members: s.members, steps: s.steps, feeds: s.feeds, ending: s.ending}
	back := &goBack{core: c, store: s.store, members: s.members, changes: s.changes, cuts: s.cuts}
	s.stateServer = &stateServer{core: c, cuts: s.cuts, back: back, move: s.changes.mover}
	s.overview = &overview{core: c, store: s.store, members: s.members, cuts: s.cuts, steps: s.steps, evaluations: s.evaluations}
	s.members.store, s.members.changes = s.store, s.changes
	s.steps.store, s.steps.members, s.steps.feeds = s.store, s.members, s.feeds
	s.feeds.members, s.feeds.steps = s.members, s.steps
	return s
}

// Run coordinates until every trainer has left, and returns why the job failed, if it did. Watchers are told the end before Run returns. It is called
// once.
func (s *Server) Run(ctx context.Context, lead Lead) error {
	s.locked(func() { s.lead = lead })
	close(s.led)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.Fail(fault.E(fault.Canceled, fault.At("coordinator"), fault.Cause(context.Cause(ctx)))) })
	defer stop()
	if err := begin(ctx, s, lead); err != nil {
		s.Fail(err)
	} else {
		s.tasks.Go(s.store.commits)
		s.tasks.Go(s.members.keepTime)
		s.tasks.Go(s.dispatch.expireTasks)
		if s.cfg.Checkpoints.Store != "" {
			s.tasks.Go(s.cuts.keep)
		}
		for name, globs := range s.cfg.Follow {
			s.tasks.Go(func() { s.follower.follow(name, globs) })
		}
	}
	<-s.done
	cancel()
	s.tasks.Wait()
	return s.steps.end(s.ending.progress)
}

// begin reads what an earlier coordinator has left, and begins a generation.
func begin(ctx context.Context, s *Server, lead Lead) error {
	entries, err := lead.State.Load(ctx)
	if err != nil {
		return err
	}
	durable, err := restoreJob(entries)
	if err != nil {
		return err
	}
	live := map[cluster.Member]id.Incarnation{}
	if len(durable.generation.Members) > 0 && s.cfg.Live != nil {
		if live, err = s.cfg.Live(ctx); err != nil {
			return err
		}
	}
	queues, err := s.store.restore(ctx, lead, entries)
	if err != nil {
		return err
	}
	if err := s.follower.create(ctx, lead, queues); err != nil {
		return err
	}
	s.locked(func() {
		s.ctx, s.store.queues = ctx, queues
		s.steps.restore(durable.steps)
		s.feeds.resumes, s.feeds.finished = durable.generation.Number > 0, durable.finished != nil
		s.ending.withoutSave = durable.finished.GetWithoutSave()
		s.members.saver = durable.saver
		s.members.begin(durable.generation, live)
		if s.cfg.Placement.GetNumber() > 0 {
			s.spawn(s.move.arrive)
		}
	})
	return nil
}

// Lost tells that the lease of a member has ended without its having left. A trainer that has come back since is known by its incarnation.
func (s *Server) Lost(ctx context.Context, m cluster.Member) error { return s.members.lost(ctx, m) }

// Want says how many trainers an elastic job is to have.
func (s *Server) Want(trainers int) { s.members.want(trainers) }

// Join waits for a generation that has the trainer as a member.
func (s *Server) Join(ctx context.Context, m *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	return s.members.join(ctx, m)
}

// News waits for what a member of a sync generation has to know while it computes.
func (s *Server) News(ctx context.Context, m *rpc.NewsRequest) (*rpc.NewsResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	return s.move.news(ctx, m)
}

// Leave is a trainer's last message.
func (s *Server) Leave(ctx context.Context, m *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	return &rpc.LeaveResponse{}, s.members.leave(ctx, m)
}

// ReportDataset takes the list of files of a dataset.
func (s *Server) ReportDataset(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportDatasetResponse]) error {
	m := &rpc.ReportDatasetRequest{}
	id, err := receive(stream.Context(), s.members, stream, m, wire.MaxDataset)
	if err != nil {
		return err
	}
	m.Id = id
	if err := s.TakeDataset(stream.Context(), m); err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportDatasetResponse{})
}

// TakeDataset is ReportDataset for a caller in this process.
func (s *Server) TakeDataset(ctx context.Context, m *rpc.ReportDatasetRequest) error {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return err
	}
	return s.dispatch.takeDataset(ctx, m)
}

// GetTask reports finished tasks and returns the next one, waiting, if it is asked to, while what is left of the pass is pending elsewhere.
func (s *Server) GetTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	began := time.Now()
	r, err := s.dispatch.getTask(ctx, m)
	if err == nil && !m.ReportOnly {
		s.cfg.Times.HandedOut(m.Id.Round, began, int(m.Id.Rank))
	}
	return r, err
}

// TaskFailed takes a task back that a trainer cannot do.
func (s *Server) TaskFailed(ctx context.Context, m *rpc.TaskFailedRequest) (*rpc.TaskFailedResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	return &rpc.TaskFailedResponse{}, s.dispatch.taskFailed(ctx, m)
}

// RequestSaveModel elects the trainer that saves the model.
func (s *Server) RequestSaveModel(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	return s.ending.requestSave(ctx, m)
}

// ReportSteps takes what a trainer fetched.
func (s *Server) ReportSteps(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportStepsResponse]) error {
	m := &rpc.TrainerSteps{}
	id, err := receive(stream.Context(), s.members, stream, m, wire.MaxStep)
	if err != nil {
		return err
	}
	m.Id = id
	if err := s.steps.report(m); err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportStepsResponse{})
}

// NextFeed returns a trainer's share of the next item of a fed job.
func (s *Server) NextFeed(m *rpc.NextFeedRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	if err := s.checkFed(); err != nil {
		return err
	}
	if err := s.members.admit(stream.Context(), m.Id); err != nil {
		return err
	}
	began := time.Now()
	share, err := s.feeds.next(stream.Context(), m)
	if err != nil {
		return err
	}
	s.cfg.Times.HandedOut(m.Id.Round, began, int(m.Id.Rank))
	return wire.Send(stream, share)
}

// Feed does one item of a fed job, for its user. Of a job that reads its own data it reads variables.
func (s *Server) Feed(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	run := &rpc.StepRun{}
	if err := wire.ReceiveFrom("the user", stream, run, wire.MaxStep, s.cfg.Identity.Check); err != nil {
		return err
	}
	var err error
	done := &rpc.StepDone{}
	switch {
	case !s.cfg.Fed:
		done, err = s.reader.read(stream.Context(), run)
	case run.GiveUp:
		done.Steps, err = s.feeds.giveUp(stream.Context(), run)
	default:
		done.Step, err = s.feeds.feed(stream.Context(), run)
	}
	if err != nil {
		return err
	}
	return wire.Send(stream, done)
}

// Finish lets the job end in good order before its data or its feeds do.
func (s *Server) Finish(ctx context.Context, m *rpc.FinishDataRequest) (*rpc.FinishDataResponse, error) {
	if err := s.cfg.Identity.Check(m.Id); err != nil {
		return nil, err
	}
	if err := checkHistory(s.core, m.History); err != nil {
		return nil, err
	}
	steps, err := s.ending.finish(ctx, m.AfterStep, m.WithoutSave)
	if err != nil {
		return nil, err
	}
	return &rpc.FinishDataResponse{Steps: steps}, nil
}

// Acknowledge takes the word that the user has been told steps.
func (s *Server) Acknowledge(_ context.Context, m *rpc.AcknowledgeRequest) (*rpc.AcknowledgeResponse, error) {
	if err := s.checkJob(m.Job); err != nil {
		return nil, err
	}
	if err := checkHistory(s.core, m.History); err != nil {
		return nil, err
	}
	s.ending.acknowledge(m.Steps)
	s.evaluations.acknowledge(m.Evaluated)
	return &rpc.AcknowledgeResponse{}, nil
}

// Permit waits until a round may begin.
func (s *Server) Permit(ctx context.Context, m *rpc.PermitRequest) (*rpc.PermitResponse, error) {
	if err := s.members.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	return s.ending.permit(ctx, m.Id)
}

// Watch streams the steps from the watcher's position on.
func (s *Server) Watch(m *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	if err := s.checkJob(m.Job); err != nil {
		return err
	}
	return s.steps.watch(m, stream)
}

// Queues tells how far the job is and what it waits for.
func (s *Server) Queues(m *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	r, err := s.overview.queues(stream.Context(), m)
	if err != nil {
		return err
	}
	if err = wire.Send(stream, r); err == nil && m.Final {
		select {
		case s.told <- struct{}{}:
		default:
		}
	}
	return err
}

// receive takes a message of a trainer that comes in pieces, and tells who has sent it.
func receive(ctx context.Context, by *members, stream interface{ Recv() (*rpc.Piece, error) }, m proto.Message,
	most int) (who *rpc.Identity, err error) {
	err = wire.ReceiveFrom("trainer", stream, m, most, func(id *rpc.Identity) error {
		who = id
		return by.admit(ctx, id)
	})
	return who, err
}
