package coordinator

import (
	"context"
	"net/url"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// begin reads what an earlier coordinator has left, and begins a generation.
func (s *Server) begin(ctx context.Context, lead Lead) error {
	entries, err := lead.State.Load(ctx)
	if err != nil {
		return err
	}
	durable, extra, err := restoreJob(entries)
	if err != nil {
		return err
	}
	if s.cfg.Fed && durable.Number > 0 {
		return fault.E(fault.LostMember, fault.At("coordinator"), fault.Got("no word of the feeds that the coordinator before had taken"),
			fault.Hint("begin the session again"))
	}
	live := map[cluster.Member]uint64{}
	if len(durable.Members) > 0 && s.cfg.Live != nil {
		if live, err = s.cfg.Live(ctx); err != nil {
			return err
		}
	}
	queues, err := s.restoreQueues(ctx, lead, entries)
	if err != nil {
		return err
	}
	if err := s.createFollowing(ctx, lead, queues); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.queues = ctx, queues
	s.members.saver, s.steps.steps = extra.saver, extra.steps
	s.machine = generation.New(s.cfg.generationPolicy(), durable)
	s.ready = true
	if s.members.wanted > 0 {
		s.step(generation.Wanted{Trainers: s.members.wanted})
	}
	s.step(generation.Start{})
	for _, m := range durable.Members {
		if s.cfg.Live != nil && live[cluster.Member{Role: job.Role_TRAINER, Index: int(m.Rank)}] != m.Incarnation {
			s.step(generation.Lost{Rank: m.Rank, Incarnation: m.Incarnation, Reason: "gone while there was no coordinator"})
		}
	}
	s.broadcast()
	return nil
}

// restoreQueues makes the queues of their entries.
func (s *Server) restoreQueues(ctx context.Context, lead Lead, entries map[string][]byte) (map[string]*queue.Queue, error) {
	parts := map[string]map[string][]byte{}
	for key, value := range entries {
		escaped, rest, ok := strings.Cut(strings.TrimPrefix(key, dataKey), "/")
		name, err := url.PathUnescape(escaped)
		if !strings.HasPrefix(key, dataKey) || !ok || err != nil {
			continue
		}
		if parts[name] == nil {
			parts[name] = map[string][]byte{}
		}
		parts[name][rest] = value
	}
	queues := map[string]*queue.Queue{}
	t := &txn{server: s, queues: queues, keys: map[string]bool{}}
	for name, part := range parts {
		q, effects, err := queue.Restore(s.cfg.queuePolicy(s.epoch), name, part, s.now())
		if err != nil {
			return nil, err
		}
		if q == nil {
			continue
		}
		if q.Exhausted() {
			return nil, exhausted(name, effects)
		}
		queues[name] = q
		t.enter(name, effects)
	}
	if len(t.changes) > 0 {
		err := lead.State.Commit(ctx, t.changes)
		return queues, err
	}
	return queues, nil
}

// readAgain finds out what is durable after a commit that has failed.
func (s *Server) readAgain() error {
	if !s.reread {
		return nil
	}
	entries, err := s.lead.State.Load(s.ctx)
	if err != nil {
		return err
	}
	queues, err := s.restoreQueues(s.ctx, s.lead, entries)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues, s.reread = queues, false
	return nil
}
