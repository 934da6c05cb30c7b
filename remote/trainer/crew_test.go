package trainer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/transpiler"
)

// A crew is a whole job but for its coordinator: a conductor, pservers that run the programs of a transpiled model, and trainers that are started
// again when a test kills them.
type crew struct {
	t         testing.TB
	model     testkit.Model
	spec      *job.JobSpec
	roles     *transpiler.Result
	conductor *conductor
	client    rpc.CoordinatorClient
	servers   []rpc.ParameterServerClient
	patience  time.Duration                                            // of trainers with a coordinator that is gone
	call      func(rank uint32, server int, when string, round uint64) // is told of every call to a server, before and after; may be nil

	mu          sync.Mutex
	incarnation uint64
	kill        map[uint32]context.CancelCauseFunc
	drain       map[uint32]chan struct{}
}

func newCrew(t testing.TB, m testkit.Model, data map[string][]string, spec *job.JobSpec, p queue.Policy) *crew {
	t.Helper()
	mode := transpiler.Sync
	if spec.Mode == job.Mode_ASYNC {
		mode = transpiler.Async
	}
	roles, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: int(spec.Trainers), PServers: int(spec.Pservers),
		MinBlockSize: 4, Mode: mode, Fetch: spec.Fetch})
	if err != nil {
		t.Fatal(err)
	}
	for name, globs := range data {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	spec.RoundDeadline = durationpb.New(time.Hour)
	c := &crew{t: t, patience: time.Hour, model: m, spec: spec, roles: roles, kill: map[uint32]context.CancelCauseFunc{},
		drain: map[uint32]chan struct{}{}}
	peers := make([]*rig.Server, spec.Pservers)
	for i := range peers {
		cfg := rig.Config(int(spec.Trainers))
		cfg.Index, cfg.Servers = i, len(peers)
		cfg.Peer = func(index int) (rpc.ParameterServerClient, error) { return peers[index].Client, nil }
		peers[i] = rig.New(t, cfg)
		c.servers = append(c.servers, peers[i].Client)
	}
	for i, s := range peers {
		c.serve(s, roles.PServers[i])
	}
	p.Sync, p.Trainers = mode == transpiler.Sync, int(spec.Trainers)
	c.conductor = newConductor(p, c.servers...)
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, c.conductor)
	c.client = rpc.NewCoordinatorClient(rig.Serve(t, service))
	return c
}

// serve runs a pserver program until the test ends.
func (c *crew) serve(s *rig.Server, p *program.Program) {
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

// run lives the life of a rank, process after process as often as it is killed.
func (c *crew) run(ctx context.Context, rank uint32) error {
	for {
		life, cancel := context.WithCancelCause(ctx)
		c.mu.Lock()
		c.incarnation++
		c.kill[rank] = cancel
		c.drain[rank] = make(chan struct{})
		cfg := Config{Identity: wire.Identity{Job: rig.Identity.Job, Program: rig.Identity.Program}, Rank: rank, Incarnation: c.incarnation,
			Sync:    c.spec.Mode == job.Mode_SYNC,
			Program: c.roles.Trainer, Save: c.roles.Save, Spec: c.spec, RoundDeadline: time.Hour, Patience: c.patience, Coordinator: c.client,
			Drain: c.drain[rank]}
		c.mu.Unlock()
		for i, s := range c.servers {
			cfg.Servers = append(cfg.Servers, &watched{s, func(when string, round uint64) {
				if c.call != nil {
					c.call(rank, i, when, round)
				}
			}})
		}
		err := Run(life, cfg)
		killed := context.Cause(life) == errKilled
		cancel(nil)
		if !killed || ctx.Err() != nil {
			return err
		}
	}
}

// errKilled ends a trainer as the loss of its lease does: it says no word any more.
var errKilled = fault.New(fault.Fenced, "killed")

func (c *crew) killTrainer(rank uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill[rank](errKilled)
}

func (c *crew) drainTrainer(rank uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.drain[rank])
}

// train runs ranks 0 to n-1 in a first generation to their end.
func (c *crew) train(ctx context.Context, n int) error {
	var first []uint32
	for rank := range n {
		first = append(first, uint32(rank))
	}
	began := make(chan error, 1)
	go func() { began <- c.conductor.regroup(ctx, first...) }()
	err := rig.Each(n, func(rank int) error { return c.run(ctx, uint32(rank)) })
	return errors.Join(err, <-began)
}

// bounded returns a context that ends with the test, or when the test hangs.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*rig.Patience)
	t.Cleanup(cancel)
	return ctx
}

// seeded returns the chance of a test case.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 77)) }
