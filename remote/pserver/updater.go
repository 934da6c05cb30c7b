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

// deliverUpdate enters a contribution of an async job. The learning-rate block runs once per step of a trainer, before anything of that step is
// applied.
func (s *Server) deliverUpdate(e Event, value *tensor.Tensor) (Verdict, error) {
	u, d, verdict, err := s.arrive(e, value)
	if u == nil {
		return verdict, err
	}
	select {
	case u.queue <- d:
		return Take, nil
	case <-s.failed:
		return Refuse, s.err
	case <-s.done:
		return Take, nil
	}
}

// arrive decides on a contribution, ticks, and adds it to the trainer's step. It returns the update that the step is now whole for, or nil with the
// verdict.
func (s *Server) arrive(e Event, value *tensor.Tensor) (*updater, delivery, Verdict, error) {
	s.arrival.Lock()
	defer s.arrival.Unlock()
	s.mu.Lock()
	d := s.machine.Step(e)
	s.mu.Unlock()
	if d.Tick {
		if err := s.tick(e.Rank, e.Round); err != nil {
			s.Fail(err)
			return nil, delivery{}, Refuse, err
		}
	}
	if d.Verdict != Take {
		return nil, delivery{}, d.Verdict, d.Err
	}
	u := s.updaters[e.Variable]
	step, whole := s.gather(u, e, value)
	if !whole {
		u = nil
	}
	return u, step, Take, nil
}

// gather adds a contribution to what its update has of the trainer's step, and reports whether that is all.
func (s *Server) gather(u *updater, e Event, value *tensor.Tensor) (delivery, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := u.parts[e.Rank]
	if ok && (d.step != e.Round || d.since != e.Generation) {
		s.release(d)
		ok = false
	}
	if !ok {
		d = delivery{rank: e.Rank, since: e.Generation, step: e.Round, values: map[string]*tensor.Tensor{}}
	}
	d.values[e.Variable] = value
	delete(u.parts, e.Rank)
	switch {
	case len(d.values) == len(u.names):
		return d, true
	case s.updates.expects(d.rank, d.since):
		u.parts[e.Rank] = d
	default: // it has completed, or lost its place, since its contribution was taken
		s.release(d)
	}
	return d, false
}

// release counts the contributions of a step as applied and frees them. s.mu is held.
func (s *Server) release(d delivery) {
	for name, value := range d.values {
		s.inbox.give(name, value)
		s.obey(s.updates.Step(Event{Kind: Applied, Rank: d.rank}))
	}
}

// abandonParts gives up the parts of steps whose trainers will send nothing more. s.mu is held.
func (s *Server) abandonParts() {
	for _, u := range s.updaters {
		for rank, d := range u.parts {
			if !s.updates.expects(rank, d.since) {
				delete(u.parts, rank)
				s.release(d)
			}
		}
	}
}
