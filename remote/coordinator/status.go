package coordinator

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/wire"
)

// Queues tells what ShowQueues returns.
func (s *Server) Queues(m *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	r, err := s.ShowQueues(stream.Context(), m)
	if err != nil {
		return err
	}
	return wire.Send(stream, r)
}

// ShowQueues tells how far the job is and what it waits for; when the final state is asked for, it waits for the end of the job itself.
func (s *Server) ShowQueues(ctx context.Context, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	if err := s.checkJob(m.Job); err != nil {
		return nil, err
	}
	if m.Final {
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, gaveUp(ctx, "the end of the job")
		}
	}
	entries, err := s.entries(ctx, m.Entries)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rpc.QueuesResponse{Entries: entries, Waits: s.waitsNow(), Phase: s.phase(), Fence: s.lead.Fence}
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		r.Queues = append(r.Queues, s.queues[name].Status())
	}
	if s.ready {
		g := s.machine.Generation()
		r.Generation, r.Round = g.Number, g.Round
		for _, member := range g.Members {
			r.Members = append(r.Members, member.Rank)
		}
	}
	return r, nil
}

// entries reads what is durable, when it is wanted.
func (s *Server) entries(ctx context.Context, wanted bool) (map[string][]byte, error) {
	s.mu.Lock()
	state := s.lead.State
	s.mu.Unlock()
	if !wanted || state == nil {
		return nil, nil
	}
	return state.Load(ctx)
}

// phase names what the membership does now. s.mu is held.
func (s *Server) phase() string {
	switch {
	case !s.ready:
		return "starting"
	case s.machine.Generation().Number == 0:
		return "forming"
	case s.ended || s.machine.Ending():
		return "ending"
	case s.machine.Paused() || len(s.bereft) > 0:
		return "paused"
	case s.machine.Now() != generation.Running:
		return "regrouping"
	}
	return "running"
}
