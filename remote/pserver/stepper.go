package pserver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// An inbox has the contributions to the open round that have arrived, and the buffers that contributions arrive in. The lock of core guards it. While
// a round is being applied, the stepper reads without the lock what has arrived: nothing is added then.
type inbox struct {
	targets map[string]*tensor.Tensor             // the merged variable, by name
	arrived map[string]map[id.Rank]*tensor.Tensor // by name and rank
	free    map[string][]*tensor.Tensor           // at most spare of each name
	spare   int                                   // members of the generation
}

// newInbox looks up the variables of every contribution.
func newInbox(l *comm.Service, blocks ops.BlockRunner) (inbox, error) {
	b := inbox{targets: map[string]*tensor.Tensor{}, arrived: map[string]map[id.Rank]*tensor.Tensor{}, free: map[string][]*tensor.Tensor{}}
	for _, name := range namesOf(l) {
		t, ok := blocks.Variable(name)
		if !ok {
			return inbox{}, fault.E(fault.InvalidProgram, fault.Op("listen_and_serv"), fault.Var(name),
				fault.Got("a contribution without a variable"), fault.Want("a persistable variable of block 0"))
		}
		b.targets[name] = t
		b.arrived[name] = map[id.Rank]*tensor.Tensor{}
	}
	return b, nil
}

// namesOf returns every variable that a contribution may hold.
func namesOf(l *comm.Service) []string {
	var names []string
	for _, c := range slices.Concat(l.Grads, l.States) {
		names = append(names, c.Name)
	}
	return names
}

// target returns the variable that contributions to a name are merged into.
func (b *inbox) target(name string) (*tensor.Tensor, bool) {
	t, ok := b.targets[name]
	return t, ok
}

// bytes is how many bytes the contribution of one trainer has.
func (b *inbox) bytes() (n int64) {
	for _, t := range b.targets {
		n += t.Bytes()
	}
	return n
}

// take returns a buffer for one contribution to name.
func (b *inbox) take(name string) (*tensor.Tensor, error) {
	if n := len(b.free[name]); n > 0 {
		t := b.free[name][n-1]
		b.free[name] = b.free[name][:n-1]
		return t, nil
	}
	target, ok := b.targets[name]
	if !ok {
		return nil, fault.E(fault.Foreign, fault.Var(name), fault.Got("a contribution that this server does not hold"))
	}
	return tensor.New(target.DType(), target.Dims()...)
}

// give takes a buffer back.
func (b *inbox) give(name string, t *tensor.Tensor) {
	if len(b.free[name]) < b.spare {
		b.free[name] = append(b.free[name], t)
	}
}

// keepFor sets for how many members free buffers are kept.
func (b *inbox) keepFor(members int) {
	b.spare = members
	for name, free := range b.free {
		if len(free) > members {
			clear(free[members:])
			b.free[name] = free[:members]
		}
	}
}

// shares returns what the contributors sent for name, in their order.
func (b *inbox) shares(name string, from []Declaration) []merge.Share {
	out := make([]merge.Share, len(from))
	for i, d := range from {
		out[i] = merge.Share{Value: b.arrived[name][d.Rank], Rows: d.Rows}
	}
	return out
}

// recycle frees all that has arrived.
func (b *inbox) recycle() {
	for name, byRank := range b.arrived {
		for _, t := range byRank {
			b.give(name, t)
		}
		clear(byRank)
	}
}

// keep enters a contribution to a sync round that has arrived. It takes the lock.
func (c *core) keep(e Received, value *tensor.Tensor) (taken bool, err error) {
	c.Lock()
	defer c.Unlock()
	f, err := c.step(e)
	if err != nil || f.Ignore || f.Hold {
		return false, err
	}
	c.inbox.arrived[e.Variable][e.Rank] = value
	c.watch() // the round may have begun with it
	return true, nil
}

// values are the variables of the program. Those who change variables hold the lock shared, because they change different ones; those who copy them,
// or change what all updates read, hold it alone.
type values struct {
	sync.RWMutex
	ops.BlockRunner
}

// snapshot copies a variable while nobody changes it.
func (v *values) snapshot(header *rpc.VariableChunk, t *tensor.Tensor) (*wire.Snapshot, error) {
	v.Lock()
	defer v.Unlock()
	return wire.Snap(header, t)
}

// A stepper makes one version of the parameters out of the one before and the contributions of a round.
type stepper struct {
	service *comm.Service
	values  *values
	inbox   *inbox // reads targets and what has arrived
	workers int    // blocks that run at the same time
	times   *timing.Recorder
}

// worthSharing is how many bytes of gradients are worth a second core: less is merged and applied before another goroutine runs.
const worthSharing = 1 << 20

// apply applies one round: it merges what the contributors have sent, and runs the blocks of the program. There is at least one contributor.
func (s *stepper) apply(ctx context.Context, round id.Round, from []Declaration) error {
	s.values.RLock()
	defer s.values.RUnlock()
	step := ops.Step{Round: uint64(round)}
	for _, d := range from {
		step.Rows += d.Rows
	}
	if err := s.merge(ctx, from); err != nil {
		return err
	}
	s.times.Enter(timing.Apply)
	if err := s.runBlocks(ctx, s.service.Prepare, step); err != nil {
		return err
	}
	for _, b := range []program.BlockIndex{s.service.Global, s.service.LRDecay} {
		if b == comm.NoBlock {
			continue
		}
		if err := s.values.RunBlock(ctx, b, step); err != nil {
			return err
		}
	}
	return s.runBlocks(ctx, s.service.Optimize, step)
}

// merge makes one value of the contributions to each name. The names are independent of each other.
func (s *stepper) merge(ctx context.Context, from []Declaration) error {
	tasks := make([]func() error, 0, len(s.service.Grads)+len(s.service.States))
	for _, c := range s.service.Grads {
		tasks = append(tasks, func() error {
			return merge.Gradients(s.inbox.targets[c.Name], s.inbox.shares(c.Name, from), c.Merge)
		})
	}
	for _, c := range s.service.States {
		tasks = append(tasks, func() error { return s.mergeState(c, s.inbox.shares(c.Name, from)) })
	}
	return inParallel(ctx, s.workers, tasks)
}

func (s *stepper) mergeState(c comm.Contribution, shares []merge.Share) error {
	target := s.inbox.targets[c.Name]
	var old *tensor.Tensor
	if c.Merge == ops.MergeSum {
		old = target.Clone()
	}
	return merge.State(target, old, shares, c.Merge)
}

// runBlocks runs blocks that write different variables, some at a time.
func (s *stepper) runBlocks(ctx context.Context, blocks []program.BlockIndex, step ops.Step) error {
	tasks := make([]func() error, len(blocks))
	for i, b := range blocks {
		tasks[i] = func() error { return s.values.RunBlock(ctx, b, step) }
	}
	return inParallel(ctx, s.workers, tasks)
}

// inParallel runs independent tasks on at most workers goroutines, of which this is one, and returns the error of the first task, in order, that failed.
func inParallel(ctx context.Context, workers int, tasks []func() error) error {
	if workers < 2 || len(tasks) < 2 {
		for _, task := range tasks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := task(); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(tasks))
	var taken atomic.Int64
	work := func() {
		for i := taken.Add(1) - 1; i < int64(len(tasks)); i = taken.Add(1) - 1 {
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = tasks[i]()
			}
		}
	}
	var group sync.WaitGroup
	for range min(workers, len(tasks)) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
