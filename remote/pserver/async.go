package pserver

import (
	"context"
	"slices"
	"sync"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// queueLength bounds the contributions to one update that wait to be applied; a trainer that is ahead waits in its Send.
const queueLength = 8

// An updater applies the contributions that one optimize block reads, or one state, in the order of their arrival. What a block reads of one
// trainer's step is applied together, when all of it has arrived.
type updater struct {
	block program.BlockIndex
	names []string // of the contributions
	queue chan delivery
	parts map[int]delivery // by rank: steps of which not all has arrived. Server.mu guards it
}

// delivery is what one trainer's step contributes to one update.
type delivery struct {
	rank   int
	since  uint64 // the generation in which the trainer joined
	step   uint64
	values map[string]*tensor.Tensor
}

// startUpdaters starts one goroutine per update, so that updates of different parameters run at the same time. s.mu is held.
func (s *Server) startUpdaters(ctx context.Context, group *sync.WaitGroup) {
	s.updaters = map[string]*updater{}
	byBlock := map[program.BlockIndex]*updater{}
	for _, c := range slices.Concat(s.layout.Grads, s.layout.States) {
		u := byBlock[c.Block]
		if u == nil || c.Block == comm.NoBlock {
			u = &updater{block: c.Block, queue: make(chan delivery, queueLength), parts: map[int]delivery{}}
			byBlock[c.Block] = u
			group.Go(func() { s.drain(ctx, u) })
		}
		u.names = append(u.names, c.Name)
		s.updaters[c.Name] = u
	}
	s.tick = func(rank int, step uint64) error {
		if s.layout.LRDecay == comm.NoBlock {
			return nil
		}
		s.values.Lock()
		defer s.values.Unlock()
		return s.blocks.RunBlock(ctx, s.layout.LRDecay, ops.Step{Round: step, Lane: uint64(rank)})
	}
}

func (s *Server) drain(ctx context.Context, u *updater) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-u.queue:
			if err := s.applyOne(ctx, u, d); err != nil {
				s.Fail(err)
				return
			}
		}
	}
}

// applyOne applies one contribution as an update of its own.
func (s *Server) applyOne(ctx context.Context, u *updater, d delivery) error {
	if err := s.updateWith(ctx, u, d); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied++
	s.release(d)
	return nil
}

func (s *Server) updateWith(ctx context.Context, u *updater, d delivery) error {
	s.values.RLock()
	defer s.values.RUnlock()
	for name, value := range d.values {
		if err := s.inbox.targets[name].CopyFrom(value); err != nil {
			return err
		}
	}
	if u.block == comm.NoBlock {
		return nil
	}
	return s.blocks.RunBlock(ctx, u.block, ops.Step{Round: d.step, Lane: uint64(d.rank)})
}
