package trainer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/transpiler"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A testJob is a whole job but for its coordinator: a fakeCoordinator, pservers that run the programs of a transpiled model, and trainers that are started
// again when a test kills them.
type testJob struct {
	t           testing.TB
	model       testkit.Model
	spec        *job.JobSpec
	roles       *transpiler.Result
	coordinator *fakeCoordinator
	client      rpc.CoordinatorClient
	servers     []rpc.ParameterServerClient
	begin       *job.Progress     // where the job begins; may be nil
	keep        string            // directory that the state is kept in; empty: none
	deadlines   jobspec.Deadlines // of the trainers
	// call is called before and after every call to a server, and every read and write of a data connection; may be nil.
	call      func(rank uint32, server int, when string, round uint64)
	hosts     []string    // by rank: trainers with the same name merge first; nil: none do
	over      string      // how the slices of sync rounds travel; empty: over gRPC
	cut       func() bool // is asked after call whether the data connection breaks now; may be nil
	addresses sync.Map    // of data connections: the server

	mu          sync.Mutex
	incarnation uint64
	kill        map[uint32]context.CancelCauseFunc
	drain       map[uint32]chan struct{}
}

func newTestJob(t testing.TB, m testkit.Model, data map[string][]string, spec *job.JobSpec, p queue.Policy) *testJob {
	t.Helper()
	mode := transpiler.Sync
	if spec.Mode == job.Mode_ASYNC {
		mode = transpiler.Async
	}
	roles, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: int(spec.Trainers), PServers: int(spec.Pservers), Devices: spec.Devices > 1,
		MinBlockSize: 4, Mode: mode, Fetch: spec.Fetch, CompressGradients: spec.CompressGradients,
		CompressParameters: spec.CompressParameters, KeepReceived: spec.PullEvery > 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, globs := range data {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	spec.RoundDeadline = durationpb.New(time.Hour)
	c := &testJob{t: t, deadlines: longDeadlines, model: m, spec: spec, roles: roles, kill: map[uint32]context.CancelCauseFunc{},
		drain: map[uint32]chan struct{}{}}
	peers := make([]*pstest.Server, spec.Pservers)
	for i := range peers {
		cfg := pstest.WithData(t, pstest.Config(int(spec.Trainers)))
		cfg.Index, cfg.Servers = i, len(peers)
		cfg.Peer = func(index int) (rpc.ParameterServerClient, error) { return peers[index].Client, nil }
		peers[i] = pstest.New(t, cfg)
		c.servers = append(c.servers, peers[i].Client)
	}
	for i, s := range peers {
		c.serve(s, roles.PServers[i])
	}
	p.Sync, p.Trainers = mode == transpiler.Sync, int(spec.Trainers)
	c.coordinator = newFakeCoordinator(p, c.servers...)
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, c.coordinator)
	c.client = rpc.NewCoordinatorClient(pstest.Serve(t, service))
	return c
}

// serve runs a pserver program until the test ends.
func (c *testJob) serve(s *pstest.Server, p *program.Program) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	local := executor.New(executor.WithServer(s.Server), executor.WithStage(program.StagePServer))
	go func() {
		_, err := local.Run(ctx, p, nil)
		if err != nil {
			s.Fail(err)
		}
		ended <- errors.Join(err, local.Close())
	}()
	c.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, fault.Canceled) {
			c.t.Error(err)
		}
	})
}

// run runs a rank, process after process as often as it is killed.
func (c *testJob) run(ctx context.Context, rank uint32) error {
	for {
		process, cancel := context.WithCancelCause(ctx)
		c.mu.Lock()
		c.incarnation++
		c.kill[rank] = cancel
		c.drain[rank] = make(chan struct{})
		cfg := Config{Identity: wire.Identity{Job: pstest.Identity.Job, Program: pstest.Identity.Program}, Rank: id.Rank(rank),
			Incarnation: id.Incarnation(c.incarnation), Sync: c.spec.Mode == job.Mode_SYNC, Program: c.roles.Trainer, Save: c.roles.Save, Spec: c.spec,
			Begin: c.begin, KeepDir: c.keep, Deadlines: c.deadlines, Coordinator: c.client, Drain: c.drain[rank]}
		c.mu.Unlock()
		for i, s := range c.servers {
			known := &confused{s, func(r *rpc.OpenDataResponse) {
				c.addresses.Store(r.Address, i)
				c.addresses.Store(r.Local, i)
			}}
			cfg.Servers = append(cfg.Servers, &watched{known, func(when string, round uint64) {
				if c.call != nil {
					c.call(rank, i, when, round)
				}
			}})
		}
		if carrier, ok := carriers[c.over]; ok {
			cfg.Log = slog.New(slog.DiscardHandler)
			cfg.Data = &dataplane.Dialer{Carrier: carrier, Wrap: func(conn net.Conn) net.Conn { return &watchedConn{conn, c.hooks(rank, conn)} }}
		}
		unlead := c.lead(process, &cfg)
		err := Run(process, cfg)
		unlead()
		killed := context.Cause(process) == errKilled
		cancel(nil)
		if !killed || ctx.Err() != nil {
			return err
		}
	}
}

// hooks returns what calls call for the reads and writes of a data connection.
func (c *testJob) hooks(rank uint32, conn net.Conn) func(when string, round uint64) {
	known, ok := c.addresses.Load(conn.RemoteAddr().String())
	server, _ := known.(int)
	if !ok { // the leader of the group: a server is frozen in its stead
		server = int(rank) % len(c.servers)
	}
	return func(when string, round uint64) {
		if c.call != nil {
			c.call(rank, server, when, round)
		}
		if c.cut != nil && c.cut() {
			conn.Close()
		}
	}
}

// longDeadlines are for tests in which no deadline passes.
var longDeadlines = jobspec.Deadlines{TrainerRound: time.Hour, Unavailable: time.Hour, Leave: time.Second, Seek: 5 * time.Second}

// errKilled ends a trainer as the loss of its lease does: it sends nothing any more, but reports for half of Deadlines.LostLease, of which longDeadlines have none.
var errKilled = fault.New(fault.Fenced, "killed")

func (c *testJob) killTrainer(rank uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill[rank](errKilled)
}

func (c *testJob) drainTrainer(rank uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.drain[rank])
}

// train runs ranks 0 to n-1 in a first generation to their end.
func (c *testJob) train(ctx context.Context, n int) error {
	var first []uint32
	for rank := range n {
		first = append(first, uint32(rank))
	}
	began := make(chan error, 1)
	go func() { began <- c.coordinator.regroup(ctx, first...) }()
	err := pstest.Parallel(n, func(rank int) error { return c.run(ctx, uint32(rank)) })
	return errors.Join(err, <-began)
}

// bounded returns a context that ends with the test, or when the test hangs.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*pstest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// seeded returns the chance of a test case.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 77)) }

// trouble supersedes the generation of a testJob at chosen calls of its trainers to pservers: the server of the call is frozen at once, the others when
// it happens; then a new generation begins.
type trouble struct {
	job   *testJob
	ctx   context.Context
	vary  bool    // the members of the next generation are any of the ranks, else all
	kills float64 // how likely a trainer is killed with it
	group sync.WaitGroup

	mu       sync.Mutex
	chance   *rand.Rand
	calls    int
	round    uint64 // that has been reached
	until    uint64 // then the job is left alone, so that it ends
	at       map[int]bool
	busy     bool
	happened []string
	err      error
}

func (x *trouble) call(rank uint32, server int, when string, round uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls++
	x.round = max(x.round, round)
	if !x.at[x.calls] || x.busy || x.round >= x.until || !x.job.coordinator.joined() {
		return
	}
	x.busy = true
	what := fmt.Sprintf("call %d: %s of trainer %d, server %d", x.calls, when, rank, server)
	next := x.ranks()
	x.job.coordinator.end()
	x.err = errors.Join(x.err, x.job.coordinator.freeze(x.ctx, server))
	if x.chance.Float64() < x.kills {
		victim := uint32(x.chance.IntN(int(x.job.spec.Trainers)))
		what += fmt.Sprintf("; trainer %d is killed", victim)
		x.job.killTrainer(victim)
	}
	x.happened = append(x.happened, what)
	x.group.Go(func() {
		err := x.job.coordinator.regroup(x.ctx, next...)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.busy, x.err = false, errors.Join(x.err, err)
	})
}

// cut breaks data connections now and then, and half of the time where a generation ends.
func (x *trouble) cut() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls%61 == 0 || x.at[x.calls] && x.calls%2 == 0
}

// ranks returns the members of the next generation.
func (x *trouble) ranks() []uint32 {
	all := []uint32{0, 1, 2}[:x.job.spec.Trainers]
	if !x.vary {
		return all
	}
	x.chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:1+x.chance.IntN(len(all))]
	slices.Sort(all)
	return all
}

// withoutCanceled leaves out the errors of trainers that waited for a generation when the job ended.
func withoutCanceled(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, withoutCanceled(e))
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, fault.Canceled) {
		return nil
	}
	return err
}

// watched reports calls to a server, with their round where it is known.
type watched struct {
	rpc.ParameterServerClient
	tell func(when string, round uint64)
}

func (w *watched) SendVariable(ctx context.Context,
	opts ...grpc.CallOption) (grpc.ClientStreamingClient[rpc.VariableChunk, rpc.SendResponse], error) {
	w.tell("before send", 0)
	s, err := w.ParameterServerClient.SendVariable(ctx, opts...)
	return &watchedSend{s, w.tell}, err
}

type watchedSend struct {
	grpc.ClientStreamingClient[rpc.VariableChunk, rpc.SendResponse]
	tell func(when string, round uint64)
}

func (s *watchedSend) CloseAndRecv() (*rpc.SendResponse, error) {
	s.tell("in send", 0)
	defer s.tell("after send", 0)
	return s.ClientStreamingClient.CloseAndRecv()
}

func (w *watched) SendBarrier(ctx context.Context, m *rpc.BarrierRequest, opts ...grpc.CallOption) (*rpc.BarrierResponse, error) {
	w.tell("before barrier", m.Id.Round)
	defer w.tell("after barrier", m.Id.Round)
	return w.ParameterServerClient.SendBarrier(ctx, m, opts...)
}

func (w *watched) GetVariable(ctx context.Context, m *rpc.GetRequest,
	opts ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.VariableChunk], error) {
	w.tell("before recv", m.Id.Round)
	defer w.tell("in recv", m.Id.Round)
	return w.ParameterServerClient.GetVariable(ctx, m, opts...)
}

// watchedConn reports the reads and writes of a data connection, with their round where it is known. A frame is written in several pieces.
type watchedConn struct {
	net.Conn
	tell func(when string, round uint64)
}

func (w *watchedConn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	what, round := "bytes", uint64(0)
	if len(b) == dataplane.HeadBytes && string(b[:4]) == "EDLd" {
		what, round = dataplane.Kind(b[4]).String(), binary.LittleEndian.Uint64(b[16:])
	}
	w.tell("before writing "+what, round)
	defer w.tell("after writing "+what, round)
	return w.Conn.Write(b)
}

func (w *watchedConn) Read(b []byte) (int, error) {
	w.tell("before reading", 0)
	defer w.tell("after reading", 0)
	return w.Conn.Read(b)
}
