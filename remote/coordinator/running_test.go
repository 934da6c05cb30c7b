package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// running is a coordinator that runs over loopback until the test ends.
type running struct {
	*coordinator.Server
	home   *home
	client rpc.CoordinatorClient
	ended  chan error
	stop   context.CancelFunc // ends it, as a crash does: it says nothing more to anybody
	lead   coordinator.Lead
}

func start(t *testing.T, cfg coordinator.Config) running { return newHome(t, cfg).start() }

// start starts a coordinator, which takes the lock from the one before.
func (h *home) start() running {
	s := running{Server: coordinator.New(h.cfg), home: h, ended: make(chan error, 1), lead: h.store.lead()}
	if h.wanted > 0 {
		s.Want(h.wanted)
	}
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, s.Server)
	s.client = rpc.NewCoordinatorClient(rig.Serve(h.t, service))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.stop = cancel
	go func() {
		defer close(done)
		s.ended <- s.Run(ctx, s.lead)
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	rig.Hurry(h.t, s.giveUp)
	return s
}

// giveUp ends the job, and so all calls that wait in it.
func (s running) giveUp() {
	q, err := s.ShowQueues(context.Background(), &rpc.QueuesRequest{Job: rig.Identity.Job})
	s.Fail(rig.TooLong("coordinator", q.GetWaits(), err))
}

// join waits for the generation after last, with a process that holds its key.
func (s running) join(rank uint32, incarnation, last uint64) (*rpc.JoinResponse, error) {
	s.home.live.set(rank, incarnation)
	return s.client.Join(s.home.t.Context(), &rpc.JoinRequest{Id: idOf(last, rank, 0), Incarnation: incarnation})
}

// joinAll lets the first process of each rank join after generation last, and returns the answers by rank.
func (s running) joinAll(last uint64, ranks ...uint32) []*rpc.JoinResponse {
	s.home.t.Helper()
	answers := make([]*rpc.JoinResponse, len(ranks))
	if err := rig.Each(len(ranks), func(i int) (err error) {
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
		q, err := wire.Queues(s.home.t.Context(), s.client, &rpc.QueuesRequest{Job: rig.Identity.Job})
		if err != nil {
			s.home.t.Fatal(err)
		}
		if ok(q) {
			return q
		}
		if time.Since(began) > rig.Patience {
			s.home.t.Fatalf("the job stays as it is: %v", q)
		}
	}
}

func (s running) reportDataset(t testing.TB, records ...int64) {
	t.Helper()
	if err := wire.ReportDataset(t.Context(), s.client,
		&rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(records...)}}); err != nil {
		t.Fatal(err)
	}
}

// leave is the last message of a trainer.
func (s running) leave(ctx context.Context, rank uint32) error {
	_, err := s.client.Leave(ctx, &rpc.LeaveRequest{Id: id(rank, 0)})
	return err
}
