package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
)

// ledgerTime bounds a question about the ledger outside of a change of members.
const ledgerTime = 10 * time.Second

// committed asks pserver 0 which records of a pass updates were computed from, when it has applied all rounds before round.
func (s *Server) committed(ctx context.Context, pass int32, round uint64) (ranges []*rpc.RecordRange, err error) {
	err = wire.Retry(ctx, func(uint32) error {
		ledger, err := s.cfg.Servers[0].Ledger(ctx, &rpc.LedgerRequest{Job: s.cfg.Identity.Job, Ranges: true, Pass: pass}, grpc.MaxCallRecvMsgSize(maxLedger))
		for _, p := range ledger.GetPasses() {
			if p.Pass == pass {
				ranges = p.Committed
			}
		}
		if err == nil && ledger.Round < round {
			err = &fault.Fault{Kind: fault.Unavailable, Got: fmt.Sprintf("the ledger of %d rounds", ledger.Round), Want: fmt.Sprint(round)}
		}
		return wire.FromStatus(serverName(0), err)
	})
	return ranges, err
}

// maxLedger bounds the answer of a pserver about its ledger.
const maxLedger = 256 << 20

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
		if err := s.happen(name, queue.Regroup{Round: g.Round, Pass: segment.GetPass(), Committed: committed}); err != nil {
			return err
		}
	}
	return nil
}

// recoverTasks returns the tasks of trainers that are gone, but for what of them the ledger has. The servers take no more from those trainers by now.
func (s *Server) recoverTasks(ctx context.Context, g generation.Generation) error {
	for name, q := range s.copyQueues() {
		for _, rank := range q.Holders() {
			lost := queue.Lost{Rank: rank, Incarnation: g.Number}
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

func (s *Server) recoverFrom(ctx context.Context, name string, lost queue.Lost) error {
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

// keepTasks returns tasks whose time is over to their queues, until the job ends.
func (s *Server) keepTasks() {
	for {
		s.mu.Lock()
		changed := s.changed
		var names []string
		next := time.Duration(-1)
		for name, q := range s.queues {
			if at, _, ok := q.Next(); ok && (next < 0 || at < next) {
				next = at
			}
			names = append(names, name)
		}
		now := s.now()
		s.mu.Unlock()
		if next >= 0 && next <= now {
			slices.Sort(names)
			for _, name := range names {
				s.expire(name)
			}
			continue
		}
		if !s.sleep(next-now, next >= 0, changed) {
			return
		}
	}
}

// expire returns the tasks of a queue whose time is over.
func (s *Server) expire(name string) {
	q := s.copyQueues()[name]
	ctx, cancel := context.WithTimeout(s.ctx, ledgerTime)
	defer cancel()
	committed, err := s.committed(ctx, q.Pass(), 0)
	if err == nil {
		pass := q.Pass()
		err = s.transact(ctx, func(t *txn) error {
			for {
				q, err := t.queue(name)
				if err != nil {
					return err
				}
				at, e, ok := q.Next()
				if !ok || at > s.now() || q.Pass() != pass {
					return nil
				}
				e.Committed = committed
				if _, err := t.step(name, e); err != nil {
					return err
				}
			}
		})
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("tasks whose time is over stay where they are", "dataset", name, "reason", err.Error())
		s.sleep(time.Second, true, nil)
	}
}

// keepTime tells the membership of deadlines, until the job ends.
func (s *Server) keepTime() {
	for {
		s.mu.Lock()
		changed := s.changed
		at, ok := s.machine.Deadline()
		if ok && !time.Now().Before(at) {
			_ = s.step(generation.Tick{})
			at, ok = s.machine.Deadline()
		}
		s.mu.Unlock()
		if !s.sleep(time.Until(at), ok, changed) {
			return
		}
	}
}

// sleep waits for a time, if it is limited, or a change. It returns false when the job has ended.
func (s *Server) sleep(d time.Duration, limited bool, changed <-chan struct{}) bool {
	var passed <-chan time.Time
	if limited {
		timer := time.NewTimer(max(d, 0))
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
	case <-changed:
	case <-s.done:
		return false
	}
	return true
}
