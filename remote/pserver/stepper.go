package pserver

import (
	"context"
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

// values are the variables of the program. Those who change variables hold the lock shared, because they change different ones; those who copy them,
// or change what all updates read, hold it alone.
type values struct {
	sync.RWMutex
	ops.BlockRunner
	freezer *freezer // is told before slices change
}

// noTensor is the error of a slice that a program does not have.
func noTensor(slice string) error {
	return fault.E(fault.Internal, fault.Var(slice), fault.Got("a slice that is no tensor"))
}

// snapshot copies a variable while nobody changes it.
func (v *values) snapshot(header *rpc.VariableChunk, t *tensor.Tensor, z wire.Zeros) (*wire.Snapshot, error) {
	v.Lock()
	defer v.Unlock()
	return wire.Snap(header, t, z)
}

// A stepper makes one version of the parameters out of the one before and the contributions of a round.
type stepper struct {
	service *comm.Service
	values  *values
	inbox   *inbox // reads targets and what has arrived
	mirror  *mirror
	sums    *blockSums // is told what rounds change; nil: nobody is
	workers int        // blocks that run at the same time
	times   *timing.Recorder
}

// worthSharing is how many bytes of gradients are worth a second core: less is merged and applied before another goroutine runs.
const worthSharing = 1 << 20

// apply applies one round: it merges what the contributors have sent, and runs the blocks of the program. There is at least one contributor.
func (s *stepper) apply(ctx context.Context, round id.Round, from []Declaration) error {
	s.values.RLock()
	defer s.values.RUnlock()
	step := ops.Step{Round: uint64(round), Hour: hourOf(from)}
	for _, d := range from {
		step.Rows += d.Rows
	}
	if isVoid(from) {
		return ops.NoMean(uint64(round))
	}
	s.inbox.elements.RLock()
	err := s.merge(ctx, from)
	if len(from) == 1 && len(s.inbox.direct) > 0 { // updates read the contribution in place
		defer s.inbox.elements.RUnlock()
		defer s.inbox.restore()
	} else {
		s.inbox.elements.RUnlock()
	}
	if err != nil {
		return err
	}
	taken := s.mirror.round()
	err = s.run(ctx, step)
	if wrong := taken(ctx); err == nil {
		err = wrong
	}
	return err
}

// isVoid reports whether the weights of all contributions are 0, although they are sums of weights.
func isVoid(from []Declaration) bool {
	void := false
	for _, d := range from {
		if d.Weight > 0 {
			return false
		}
		void = void || d.Void
	}
	return void
}

// update applies a round whose merges are there.
func (s *stepper) update(ctx context.Context, step ops.Step) error {
	s.values.RLock()
	defer s.values.RUnlock()
	return s.run(ctx, step)
}

// run runs the blocks of the program. The lock of values is held shared.
func (s *stepper) run(ctx context.Context, step ops.Step) error {
	defer s.sums.applied()
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

// merge makes one value of the contributions to each name. The names are independent of each other. The caller holds elements.
func (s *stepper) merge(ctx context.Context, from []Declaration) error {
	tasks := make([]func() error, 0, len(s.service.Grads)+len(s.service.States))
	for _, c := range s.service.Grads {
		tasks = append(tasks, func() error { return s.inbox.merged(c, from) })
	}
	for _, c := range s.service.States {
		tasks = append(tasks, func() error { return s.mergeState(c, s.inbox.shares(c.Name, from)) })
	}
	return inParallel(ctx, s.workers, tasks)
}

func (s *stepper) mergeState(c comm.Contribution, shares []merge.Share) error {
	target := s.inbox.targets[c.Name]
	s.values.freezer.changing(c.Name)
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
