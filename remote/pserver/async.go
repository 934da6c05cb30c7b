package pserver

import (
	"context"
	"sync"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/tensor"
)

// queueLength bounds the contributions to one gradient that wait to be applied; a trainer that is ahead waits in its Send.
const queueLength = 8

// delivery is one contribution in the queue of its gradient.
type delivery struct {
	rank  int
	step  uint64
	value *tensor.Tensor
}

// startQueues starts one goroutine per gradient and state: contributions to one of them are applied in order of arrival, those to
// different ones at the same time.
func (s *Server) startQueues(ctx context.Context, group *sync.WaitGroup) {
	queues := map[string]chan delivery{}
	for _, c := range append(append([]comm.Contribution(nil), s.layout.Grads...), s.layout.States...) {
		q := make(chan delivery, queueLength)
		queues[c.Name] = q
		group.Go(func() { s.drain(ctx, c, q) })
	}
	s.mu.Lock()
	s.queues = queues
	s.broadcast()
	s.mu.Unlock()
}

func (s *Server) drain(ctx context.Context, c comm.Contribution, q <-chan delivery) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-q:
			if err := s.applyOne(ctx, c, d); err != nil {
				s.fail(err)
				return
			}
		}
	}
}

// applyOne applies one contribution as an update of its own.
func (s *Server) applyOne(ctx context.Context, c comm.Contribution, d delivery) error {
	target := s.inbox.targets[c.Name]
	s.values.RLock()
	err := target.CopyFrom(d.value)
	if err == nil && c.Block != comm.NoBlock {
		err = s.blocks.RunBlock(ctx, c.Block, ops.Step{Round: d.step, Lane: uint64(d.rank) + 1})
	}
	s.values.RUnlock()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.give(c.Name, d.value)
	s.applied++
	if s.updates.Step(Event{Kind: Applied, Rank: d.rank, Variable: c.Name}).Finished {
		s.finish()
	}
	s.broadcast()
	return nil
}

// tick runs the learning-rate block, once per step of a trainer, before the first of its contributions is applied. s.mu is held, so that
// nobody applies a contribution of the same step meanwhile.
func (s *Server) tick(ctx context.Context, e Event) error {
	if s.layout.LRDecay == comm.NoBlock {
		return nil
	}
	s.values.Lock()
	defer s.values.Unlock()
	return s.blocks.RunBlock(ctx, s.layout.LRDecay, ops.Step{Round: e.Round, Lane: uint64(e.Rank) + 1})
}
