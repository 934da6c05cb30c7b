package pserver

import (
	"context"
	"sync"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// applyRound merges what the contributors sent, runs the blocks, and opens the next round.
func (s *Server) applyRound(ctx context.Context, from []Contributor) error {
	if len(from) > 0 {
		s.values.RLock()
		err := s.update(ctx, from)
		s.values.RUnlock()
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.recycle()
	for _, d := range s.rounds.Made() {
		if err := s.enter(d); err != nil {
			return err
		}
	}
	s.obey(s.rounds.Step(Event{Kind: Applied}))
	return nil
}

// update runs one round on the program: merge, prepare, exchange, learning rate, optimize.
func (s *Server) update(ctx context.Context, from []Contributor) error {
	l := s.layout
	step := ops.Step{Round: s.rounds.Round()}
	for _, c := range from {
		step.Rows += c.Rows
	}
	if err := s.merge(ctx, from); err != nil {
		return err
	}
	if err := s.runBlocks(ctx, l.Prepare, step); err != nil {
		return err
	}
	for _, b := range []program.BlockIndex{l.Global, l.LRDecay} {
		if b == comm.NoBlock {
			continue
		}
		if err := s.blocks.RunBlock(ctx, b, step); err != nil {
			return err
		}
	}
	return s.runBlocks(ctx, l.Optimize, step)
}

// merge makes one value of every contribution. The names are independent of each other.
func (s *Server) merge(ctx context.Context, from []Contributor) error {
	l := s.layout
	tasks := make([]func() error, 0, len(l.Grads)+len(l.States))
	for _, c := range l.Grads {
		tasks = append(tasks, func() error {
			return merge.Gradients(s.inbox.targets[c.Name], s.inbox.shares(c.Name, from), c.Merge)
		})
	}
	for _, c := range l.States {
		tasks = append(tasks, func() error { return s.mergeState(c, s.inbox.shares(c.Name, from)) })
	}
	return inParallel(ctx, s.cfg.Workers, tasks)
}

func (s *Server) mergeState(c comm.Contribution, shares []merge.Share) error {
	target := s.inbox.targets[c.Name]
	var old *tensor.Tensor
	if c.Merge == ops.MergeSum {
		old = target.Clone()
	}
	return merge.State(target, old, shares, c.Merge)
}

// runBlocks runs blocks that write different variables, some at a time.
func (s *Server) runBlocks(ctx context.Context, blocks []program.BlockIndex, step ops.Step) error {
	tasks := make([]func() error, len(blocks))
	for i, b := range blocks {
		tasks[i] = func() error { return s.blocks.RunBlock(ctx, b, step) }
	}
	return inParallel(ctx, s.cfg.Workers, tasks)
}

// inParallel runs independent tasks on at most workers goroutines and returns the error of the first task, in order, that failed.
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
	next := make(chan int)
	var group sync.WaitGroup
	for range min(workers, len(tasks)) {
		group.Go(func() {
			for i := range next {
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = tasks[i]()
				}
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
