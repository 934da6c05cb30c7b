package pserver

import (
	"context"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Serve runs listen_and_serv: it opens the service on the program's variables and returns when every member of the generation has completed. However
// it ends, nobody waits for this server afterwards.
func (s *Server) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	if err := s.run(ctx, op, blocks); err != nil {
		s.Fail(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Server) run(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	service, err := comm.ServiceOf(op)
	if err != nil {
		return err
	}
	layout := &service
	box, err := newInbox(layout, blocks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { // a round that waits for other servers ends with the deadline
		select {
		case <-s.failed:
			cancel()
		case <-ctx.Done():
		}
	})

	s.mu.Lock()
	s.layout, s.blocks, s.inbox = layout, blocks, box
	for _, slice := range layout.Slices {
		if t, ok := blocks.Variable(slice.Name); ok {
			s.bytes += t.Bytes()
		}
	}
	if s.cfg.Index == 0 {
		s.ledger = &Ledger{}
	}
	if layout.Sync {
		s.rounds = NewRounds(s.cfg.MaxTrainers, namesOf(layout))
		s.machine = s.rounds
	} else {
		s.updates = NewUpdates(s.cfg.MaxTrainers, namesOf(layout))
		s.machine = s.updates
		s.startUpdaters(ctx, &group)
	}
	s.broadcast()
	s.mu.Unlock()
	return s.serve(ctx)
}

func (s *Server) serve(ctx context.Context) error {
	for {
		select {
		case shares := <-s.toApply:
			if err := s.applyRound(ctx, shares); err != nil {
				return err
			}
		case <-s.done:
			return nil
		case <-s.failed:
			return s.err
		case <-ctx.Done():
			return fault.E(fault.Canceled, fault.At(s.where()), fault.Cause(context.Cause(ctx)))
		}
	}
}

// obey carries out what a decision demands, but for what needs the call's own data. s.mu is held.
func (s *Server) obey(d Decision) {
	if d.Drop {
		s.inbox.recycle()
	}
	switch {
	case d.Apply:
		s.toApply <- d.Shares // never blocks: at most one round is being applied
	case d.Finished:
		s.finish()
	}
	s.broadcast()
}

// Exchange publishes own for the current round and returns what every server published under the same name.
func (s *Server) Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	return s.exchange(ctx, name, own, all)
}
