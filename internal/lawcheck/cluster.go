package lawcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// A cluster runs role programs in one process: trainers and servers are executors on goroutines, and the wire is a lock. It
// knows rounds as the contracts of ops.Comm and ops.Server state them, and nothing of how programs are transpiled.
type cluster struct {
	trainers []*executor.Local
	servers  []*server
	trainer  *program.Program
	save     *program.Program
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	round    uint64
	rows     int64                                     // of the batch of the round
	declared map[int]int64                             // rank -> rows
	sent     map[int]map[string]map[int]*tensor.Tensor // server -> name -> rank
	totals   []map[int]ops.Totals                      // place -> rank
	err      error
}

// start runs the servers of r and prepares trainers.
func start(ctx context.Context, r *transpiler.Result, trainers int) *cluster {
	ctx, cancel := context.WithCancel(ctx)
	c := &cluster{trainer: r.Trainer, save: r.Save, cancel: cancel, declared: map[int]int64{}, sent: map[int]map[string]map[int]*tensor.Tensor{}}
	c.changed = sync.NewCond(&c.mu)
	for i, p := range r.PServers {
		s := &server{cluster: c, index: i, ready: make(chan struct{})}
		c.servers = append(c.servers, s)
		c.running.Go(func() {
			e := executor.New(executor.WithServer(s), executor.WithStage(program.StagePServer))
			defer e.Close()
			if _, err := e.Run(ctx, p, nil); err != nil && !errors.Is(err, context.Canceled) {
				c.fail(fmt.Errorf("pserver %d: %w", i, err))
			}
		})
	}
	for _, s := range c.servers {
		<-s.ready
	}
	for rank := range trainers {
		c.trainers = append(c.trainers, executor.New(executor.WithComm(&wire{c, rank}), executor.WithStage(program.StageTrainer)))
	}
	return c
}

func (c *cluster) stop() {
	c.cancel()
	c.running.Wait()
	for _, e := range c.trainers {
		e.Close()
	}
}

func (c *cluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.changed.Broadcast()
	for _, s := range c.servers {
		s.started()
	}
}

// step trains one batch in one round and returns what the trainer of rank 0 fetches.
func (c *cluster) step(ctx context.Context, feed executor.Feed, rows int64, fetch ...string) ([]*tensor.Tensor, error) {
	var all sync.WaitGroup
	var first []*tensor.Tensor
	round := c.round
	c.rows = rows
	for rank, e := range c.trainers {
		from, to := c.part(rank)
		all.Go(func() {
			part := executor.Feed{}
			for name, value := range feed {
				if v, ok := c.trainer.Global().Find(name); ok && (len(c.trainers) == 1 || len(v.Dims) == 0 || v.Dims[0] != program.Unknown) {
					part[name] = value // the same for every trainer, or nobody divides it
					continue
				}
				rows, err := tensor.PartOf(value, from, to)
				if err != nil {
					c.fail(fmt.Errorf("feed %s: %w", name, err))
					return
				}
				part[name] = rows
			}
			fetched, err := e.RunStep(ctx, c.trainer, ops.Step{Round: round, RowOffset: from, Rows: to - from, Part: to-from < rows, Batch: rows}, part, fetch...)
			if err != nil {
				c.fail(fmt.Errorf("trainer %d: %w", rank, err))
			} else if rank == 0 {
				first = fetched
			}
		})
	}
	all.Wait()
	return first, c.err
}

// part returns which rows of the batch a trainer has.
func (c *cluster) part(rank int) (from, to int64) {
	n := int64(len(c.trainers))
	return c.rows * int64(rank) / n, c.rows * int64(rank+1) / n
}

// advance merges what was sent and runs the blocks of all servers. c.mu is held.
func (c *cluster) advance() error {
	var rows int64
	for _, n := range c.declared {
		rows += n
	}
	step := ops.Step{Round: c.round, Rows: rows, Hour: ops.HourOf(c.round, dayRounds)}
	for _, s := range c.servers {
		if err := s.merge(); err != nil {
			return err
		}
	}
	exchange := &exchange{parts: map[string][]*tensor.Tensor{}}
	exchange.changed = sync.NewCond(&exchange.mu)
	errs := make([]error, len(c.servers))
	var all sync.WaitGroup
	for i, s := range c.servers {
		all.Go(func() {
			if errs[i] = s.run(context.WithValue(context.Background(), exchangeKey{}, exchange), step); errs[i] != nil {
				exchange.fail()
			}
		})
	}
	all.Wait()
	c.round++
	c.totals, c.declared, c.sent = nil, map[int]int64{}, map[int]map[string]map[int]*tensor.Tensor{}
	c.changed.Broadcast()
	return errors.Join(errs...)
}

// server is one pserver; it implements ops.Server.
type server struct {
	cluster *cluster
	index   int
	service comm.Service
	blocks  ops.BlockRunner
	ready   chan struct{}
	once    sync.Once // closes ready
}

func (s *server) started() { s.once.Do(func() { close(s.ready) }) }

func (s *server) merge() error {
	for _, contribution := range append(s.service.Grads, s.service.States...) {
		shares := []merge.Share{}
		for rank := range s.cluster.trainers {
			if value := s.cluster.sent[s.index][contribution.Name][rank]; value != nil {
				shares = append(shares, merge.Share{Value: value, Rows: s.cluster.declared[rank]})
			}
		}
		dst, ok := s.blocks.Variable(contribution.Target())
		if !ok || len(shares) == 0 {
			return fmt.Errorf("pserver %d: nothing to merge into %s: %d shares", s.index, contribution.Name, len(shares))
		}
		how := merge.Gradients
		if contribution.Block == comm.NoBlock {
			old := dst.Clone()
			how = func(dst *tensor.Tensor, shares []merge.Share, m ops.Merge) error {
				return merge.State(dst, old, shares, m)
			}
		}
		if err := how(dst, shares, contribution.Merge); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) run(ctx context.Context, step ops.Step) error {
	order := append([]program.BlockIndex{}, s.service.Prepare...)
	for _, b := range []program.BlockIndex{s.service.Global, s.service.LRDecay} {
		if b != comm.NoBlock {
			order = append(order, b)
		}
	}
	for _, b := range append(order, s.service.Optimize...) {
		if err := s.blocks.RunBlock(ctx, b, step); err != nil {
			return fmt.Errorf("pserver %d, block %d: %w", s.index, b, err)
		}
	}
	return nil
}

// Serve implements ops.Server.
func (s *server) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	var err error
	if s.service, err = comm.ServiceOf(op); err != nil {
		return err
	}
	s.blocks = blocks
	s.started()
	<-ctx.Done()
	return ctx.Err()
}

// exchange is one round's exchange of values between servers.
type exchange struct {
	mu      sync.Mutex
	changed *sync.Cond
	parts   map[string][]*tensor.Tensor
	arrived int
	failed  bool // a server will not arrive
}

func (e *exchange) fail() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = true
	e.changed.Broadcast()
}

type exchangeKey struct{}

// Exchange implements ops.Server.
func (s *server) Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	e := ctx.Value(exchangeKey{}).(*exchange)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parts[name] == nil {
		e.parts[name] = make([]*tensor.Tensor, len(s.cluster.servers))
	}
	e.parts[name][s.index] = own.Clone()
	e.arrived++
	e.changed.Broadcast()
	for e.arrived < len(s.cluster.servers) {
		if e.failed {
			return errors.New("another server failed")
		}
		e.changed.Wait()
	}
	for i := range all {
		if err := all[i].CopyFrom(e.parts[name][i]); err != nil {
			return err
		}
	}
	return nil
}
