package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is a job with deadlines that no test reaches. Its program declares x, label and y, which are batched, and rate, which is not; what
// trainers fetch merges to the concatenation of their bytes.
func config(trainers int) coordinator.Config {
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	for _, name := range []string{"label", "y"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	}
	p.Global().EnsureVar(program.Var{Name: "rate", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	return coordinator.Config{Identity: wire.Identity{Job: rig.Identity.Job, Program: rig.Identity.Program}, Program: p, Trainers: trainers, Sync: true,
		Passes: 1, RecordsPerTask: 10, MaxFailures: 1,
		StartDeadline: time.Hour, RejoinDeadline: time.Hour, TaskTimeout: [2]time.Duration{time.Minute, time.Hour},
		Merge: func(reports []*rpc.TrainerStep) ([]*job.Value, error) {
			out := &job.Value{Name: "y"}
			for _, r := range reports {
				for _, v := range r.Fetched {
					out.Stream = append(out.Stream, v.Stream...)
				}
			}
			if bytes.Contains(out.Stream, []byte("broken")) {
				return nil, errors.New("cannot be merged")
			}
			return []*job.Value{out}, nil
		}}
}

// home is a job: what outlives its coordinators.
type home struct {
	t       *testing.T
	cfg     coordinator.Config
	store   *store
	servers []*fakeServer
	live    *alive
	wanted  int // trainers; 0: the minimum
}

func newHome(t *testing.T, cfg coordinator.Config) *home {
	h := &home{t: t, cfg: cfg, store: newStore(), live: &alive{}}
	for range 2 {
		s := &fakeServer{}
		h.servers = append(h.servers, s)
		h.cfg.Servers = append(h.cfg.Servers, s)
	}
	h.cfg.Live = h.live.list
	return h
}

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
	return s
}

// id is the identity of a trainer in generation 1.
func id(rank uint32, round uint64) *rpc.Identity { return idOf(1, rank, round) }

func idOf(generation uint64, rank uint32, round uint64) *rpc.Identity {
	return &rpc.Identity{Job: rig.Identity.Job, ProgramHash: rig.Identity.Program, Generation: generation, Rank: rank, Round: round}
}

// incarnation is that of the first process of a rank.
func incarnation(rank uint32) uint64 { return 100 + uint64(rank) }

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
	for {
		q, err := wire.Queues(s.home.t.Context(), s.client, &rpc.QueuesRequest{Job: rig.Identity.Job})
		if err != nil {
			s.home.t.Fatal(err)
		}
		if ok(q) {
			return q
		}
	}
}

// filesOf makes one file of each number of records.
func filesOf(records ...int64) []*rpc.DataFile {
	var files []*rpc.DataFile
	first := int64(0)
	for i, n := range records {
		files = append(files, &rpc.DataFile{Path: fmt.Sprintf("f%d", i), FirstRecord: first, Records: n, Bytes: 8 * n, Fingerprint: uint64(i)})
		first += n
	}
	return files
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
