package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
)

// ledgerTime bounds a question about the ledger outside of a change of members.
const ledgerTime = 10 * time.Second

// committed asks pserver 0 which records of a pass updates were computed from, when it has applied all rounds before round.
func (s *Server) committed(ctx context.Context, pass int32, round uint64) (committed ranges.Set, err error) {
	err = wire.Retry(ctx, func(uint32) error {
		ledger, err := wire.Ledger(ctx, serverName(0), s.cfg.Servers[0], &rpc.LedgerRequest{Job: s.cfg.Identity.Job, Ranges: true, Pass: pass})
		for _, p := range ledger.GetPasses() {
			if p.Pass == pass {
				committed = ranges.Of(wire.RangesOf(p.Committed)...)
			}
		}
		if err == nil && ledger.Round < round {
			err = fault.E(fault.Unavailable, fault.Gotf("the ledger of %d rounds", ledger.Round), fault.Want(fmt.Sprint(round)))
		}
		return err
	})
	return committed, err
}

func serverName(i int) string { return fmt.Sprintf("pserver %d", i) }

// beginSegment begins a new segment in queues that have had a failure: the servers have told how far the data was trained.
func (s *Server) beginSegment(ctx context.Context, g generation.Generation) error {
	for name, q := range s.copyQueues() {
		if !q.Regrouping() {
			continue
		}
		segment := q.Segment(g.Round)
		committed, err := s.committed(ctx, segment.GetPass(), g.Round)
		if err != nil {
			return err
		}
		if err := s.happen(name, queue.Regrouped{Round: g.Round, Pass: segment.GetPass(), Committed: committed}); err != nil {
			return err
		}
	}
	return nil
}

// recoverTasks returns the tasks of trainers that are gone, but for what of them the ledger has. The servers take no more from those trainers by now.
func (s *Server) recoverTasks(ctx context.Context, g generation.Generation) error {
	for name, q := range s.copyQueues() {
		for _, rank := range q.Holders() {
			lost := queue.TrainerLost{Rank: rank, Incarnation: g.Number}
			if member, ok := g.Member(uint32(rank)); ok {
				lost.Incarnation = member.Since - 1 // the processes before the one that is a member
			}
			if err := s.recoverFrom(ctx, name, lost); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) recoverFrom(ctx context.Context, name string, lost queue.TrainerLost) error {
	s.mu.Lock()
	lost.Drained, lost.Reason = s.members.drained[uint32(lost.Rank)], s.members.reasons[uint32(lost.Rank)]
	s.mu.Unlock()
	for {
		lost.Pass = s.copyQueues()[name].Pass()
		var err error
		if lost.Committed, err = s.committed(ctx, lost.Pass, 0); err != nil {
			return err
		}
		err = s.happen(name, lost)
		if !errors.Is(err, fault.Stale) || s.copyQueues()[name].Pass() == lost.Pass { // stale: a pass has begun since
			return err
		}
	}
}

// copyQueues returns the queues as they are durable now. They must not be changed.
func (s *Server) copyQueues() map[string]*queue.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues
}
