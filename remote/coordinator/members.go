package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Join announces a trainer and waits for the others.
func (s *Server) Join(ctx context.Context, m *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.joined[m.Id.Rank] = true
	s.broadcast()
	s.mu.Unlock()
	err := s.await(ctx, "all trainers to join", func() bool { return len(s.joined) == s.cfg.Trainers })
	return &rpc.JoinResponse{Trainers: uint32(s.cfg.Trainers), Generation: s.cfg.Identity.Generation}, err
}

// Leave is a trainer's last message. The job has ended when all have left, or when one leaves with a failure.
func (s *Server) Leave(_ context.Context, m *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[m.Id.Rank] = true
	if m.Failure != nil {
		if m.Failure.Where == "" {
			m.Failure.Where = fmt.Sprintf("trainer %d", m.Id.Rank)
		}
		s.finish(wire.FaultOf(m.Failure))
	} else if len(s.left) == s.cfg.Trainers {
		s.finish(nil)
	}
	s.broadcast()
	return &rpc.LeaveResponse{}, nil
}

// RequestSaveModel elects the first trainer that asks, and answers it when all others have left: then nothing changes the model any more. The
// same trainer asking again is told the same, so that a repeated message does no harm.
func (s *Server) RequestSaveModel(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.saver == nil {
		rank := m.Id.Rank
		s.saver = &rank
	}
	granted := *s.saver == m.Id.Rank
	s.mu.Unlock()
	if !granted {
		return &rpc.SaveModelResponse{}, nil
	}
	err := s.await(ctx, "the other trainers to finish, before the model is saved", func() bool { return len(s.left) >= s.cfg.Trainers-1 })
	return &rpc.SaveModelResponse{Granted: true}, err
}

// now is the time argument of the queues.
func (s *Server) now() time.Duration { return time.Since(s.start) }

// CloseFeed ends an interactive job: trainers see the end of their data.
func (s *Server) CloseFeed(_ context.Context, m *rpc.CloseFeedRequest) (*rpc.CloseFeedResponse, error) {
	if err := s.cfg.Identity.Check(m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds.closed = true
	s.broadcast()
	return &rpc.CloseFeedResponse{}, nil
}
