package coordinator_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// running is a coordinator that runs over loopback until the test ends.
type running struct {
	*coordinator.Server
	connection
	userCalls
	trainerCalls
	ended chan error
	stop  context.CancelFunc // ends it, as a crash does: it says nothing more to anybody
	lead  coordinator.Lead
}

// A connection reaches a coordinator for its callers in tests.
type connection struct {
	home   *home
	client rpc.CoordinatorClient
}

// userCalls are the calls of the user of a job.
type userCalls struct{ connection }

// trainerCalls are the calls of the trainers of a job.
type trainerCalls struct{ connection }

func start(t *testing.T, cfg coordinator.Config) running { return newHome(t, cfg).start() }

// start starts a coordinator, which takes the lock from the one before.
func (h *home) start() running {
	s := running{Server: coordinator.New(h.cfg), ended: make(chan error, 1), lead: h.store.lead()}
	if h.wanted > 0 {
		s.Want(h.wanted)
	}
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, s.Server)
	s.connection = connection{h, rpc.NewCoordinatorClient(pstest.Serve(h.t, service))}
	s.userCalls, s.trainerCalls = userCalls{s.connection}, trainerCalls{s.connection}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.stop = cancel
	go func() {
		defer close(done)
		s.ended <- s.Run(ctx, s.lead)
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	pstest.Watchdog(h.t, s.giveUp)
	return s
}

// giveUp ends the job, and so all calls that wait in it.
func (s running) giveUp() {
	q, err := s.ShowQueues(context.Background(), &rpc.QueuesRequest{Job: pstest.Identity.Job})
	s.Fail(pstest.TimedOut("coordinator", q.GetWaits(), err))
}

// join waits for the generation after last, with a process that holds its key.
func (s trainerCalls) join(rank uint32, incarnation, last uint64) (*rpc.JoinResponse, error) {
	s.home.live.set(rank, incarnation)
	return s.client.Join(s.home.t.Context(), &rpc.JoinRequest{Id: idOf(last, rank, 0), Incarnation: incarnation})
}

// joinAll lets the first process of each rank join after generation last, and returns the answers by rank.
func (s trainerCalls) joinAll(last uint64, ranks ...uint32) []*rpc.JoinResponse {
	s.home.t.Helper()
	answers := make([]*rpc.JoinResponse, len(ranks))
	if err := pstest.Parallel(len(ranks), func(i int) (err error) {
		answers[i], err = s.join(ranks[i], incarnation(ranks[i]), last)
		return err
	}); err != nil {
		s.home.t.Fatal(err)
	}
	return answers
}

// status asks how the job is until ok says so.
func (s running) status(ok func(*rpc.QueuesResponse) bool) *rpc.QueuesResponse {
	s.home.t.Helper()
	for began := time.Now(); ; {
		q, err := wire.Queues(s.home.t.Context(), s.client, &rpc.QueuesRequest{Job: pstest.Identity.Job})
		if err != nil {
			s.home.t.Fatal(err)
		}
		if ok(q) {
			return q
		}
		if time.Since(began) > pstest.Patience {
			s.home.t.Fatalf("the job stays as it is: %v", q)
		}
	}
}

func (s trainerCalls) reportDataset(t testing.TB, records ...int64) {
	t.Helper()
	if err := wire.ReportDataset(t.Context(), s.client,
		&rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(records...)}}); err != nil {
		t.Fatal(err)
	}
}

// leave is the last message of a trainer.
func (s trainerCalls) leave(ctx context.Context, rank uint32) error {
	_, err := s.client.Leave(ctx, &rpc.LeaveRequest{Id: firstID(rank, 0)})
	return err
}

// report tells, in one message, what a trainer fetched in some steps of a generation.
func (s trainerCalls) report(ctx context.Context, steps ...*rpc.TrainerStep) error {
	m := &rpc.TrainerSteps{Id: firstID(0, 0), Steps: steps}
	if len(steps) > 0 {
		m.Id = steps[0].Id
	}
	return wire.ReportSteps(ctx, s.client, m)
}

// feed runs one fed step.
func (s userCalls) feed(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	done, err := wire.RunStep(ctx, "coordinator", s.client.Feed, firstID(0, 0), run)
	return done.GetStep(), wire.FromStatus("coordinator", err)
}

// giveUpStep gives a fed step up and returns how many steps the session has had.
func (s userCalls) giveUpStep(ctx context.Context, number, call uint64) (uint64, error) {
	done, err := wire.RunStep(ctx, "coordinator", s.client.Feed, firstID(0, 0), &rpc.StepRun{Step: number, Call: call, GiveUp: true})
	return done.GetSteps(), wire.FromStatus("coordinator", err)
}

// nextFeed asks for a trainer's share.
func (s trainerCalls) nextFeed(ctx context.Context, rank uint32, n uint64) (*rpc.FeedShare, error) {
	stream, err := s.client.NextFeed(ctx, &rpc.NextFeedRequest{Id: firstID(rank, n), Item: n})
	if err != nil {
		return nil, err
	}
	share := &rpc.FeedShare{}
	return share, wire.FromStatus("coordinator", wire.Receive("coordinator", stream, share, 1<<20))
}

// watch returns every step that is reported until the job has ended, and its last status.
func (s userCalls) watch(ctx context.Context) (steps []*job.Step, last *job.JobStatus, err error) {
	stream, err := s.client.Watch(ctx, &rpc.WatchRequest{Job: pstest.Identity.Job})
	for err == nil {
		var m *rpc.WatchResponse
		if m, err = stream.Recv(); err == nil {
			for _, e := range m.Events {
				if e.GetStep() != nil {
					steps = append(steps, e.GetStep())
				}
				last = e.GetStatus()
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return steps, last, wire.FromStatus("coordinator", err)
}

// batch is x with rows of two elements, the first of which is the number of the row.
func batch(rows int64) *job.Value {
	x := pstest.Vector(2 * rows)
	for i := range rows {
		x.Float32s()[2*i] = float32(i)
	}
	x, err := tensor.FromSlice(x.Float32s(), rows, 2)
	if err != nil {
		panic(err)
	}
	return &job.Value{Name: "x", Stream: tensor.AppendStream(nil, x)}
}

// rowsOf lists the numbers of the rows of x in a share.
func rowsOf(share *rpc.FeedShare) (string, error) {
	text := ""
	for _, v := range share.Feed {
		x, _, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil {
			return "", err
		}
		for i := 0; v.Name == "x" && i < x.Len(); i += 2 {
			text += fmt.Sprintf("%v ", x.Float32s()[i])
		}
	}
	return text, nil
}
