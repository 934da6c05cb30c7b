package coordinator

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/wire"
)

// memory is what a coordinator knows of members beside the membership. Server.mu guards it.
type memory struct {
	wanted  int
	saver   *uint32           // durable
	reasons map[uint32]string // why trainers have gone, by rank
	drained map[uint32]bool   // since the last generation began
	losses  map[uint32]int    // by rank: how often word of the loss of a trainer has come
}

// Join waits for a generation that has the trainer as a member.
func (s *Server) Join(ctx context.Context, m *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	rank, last := m.Id.Rank, m.Id.Generation
	if err := s.joined(ctx, generation.Joined{Rank: rank, Incarnation: m.Incarnation, Last: last}); err != nil {
		return nil, err
	}
	var r *rpc.JoinResponse
	err := s.await(ctx, waiting{who: trainerName(rank), what: "the other trainers"}, func() (bool, error) {
		if s.ended && s.err == nil || s.machine.Left(rank) {
			r = &rpc.JoinResponse{Fence: s.lead.Fence, DataEnded: true}
			return true, nil
		}
		g, ok := s.machine.Answer(rank, m.Incarnation, last)
		if !ok {
			return false, nil
		}
		var err error
		r, err = s.answer(rank, g)
		return true, err
	})
	return r, err
}

// answer is what a member has to know of its generation. s.mu is held.
func (s *Server) answer(rank uint32, g generation.Generation) (*rpc.JoinResponse, error) {
	member, _ := g.Member(rank)
	r := &rpc.JoinResponse{Trainers: uint32(len(g.Members)), Generation: member.Since, Position: uint32(g.Position(rank)), Fence: s.lead.Fence,
		DataEnded: len(s.queues) > 0}
	for name, q := range s.queues {
		r.DataEnded = r.DataEnded && q.Ended()
		if !s.cfg.Sync {
			continue
		}
		if r.Segment = q.Segment(g.Round); r.Segment == nil {
			return nil, fault.E(fault.Internal, fault.At("dataset "+fault.Quote(name)),
				fault.Gotf("round %d, of which it is not known where it lies", g.Round))
		}
	}
	if s.cfg.Sync {
		r.Generation, r.Round = g.Number, g.Round
	}
	return r, nil
}

// Leave is a trainer's last message.
func (s *Server) Leave(ctx context.Context, m *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	member, isMember := s.machine.Generation().Member(m.Id.Rank)
	s.mu.Unlock()
	if s.endedWell() { // all others have left, and the servers have told that this one was about to
		return &rpc.LeaveResponse{}, nil
	}
	if isMember && m.Id.Generation > 0 && m.Id.Generation < member.Since {
		return nil, fault.E(fault.Stale, fault.At("coordinator"),
			fault.Gotf("leave of trainer %d as of generation %d", m.Id.Rank, m.Id.Generation),
			fault.Want("that of the process which took its place"))
	}
	switch {
	case m.Failure != nil:
		s.failed(m)
	case m.Drained:
		s.mu.Lock()
		s.members.drained[m.Id.Rank] = true
		_ = s.step(generation.Drained{Rank: m.Id.Rank})
		s.mu.Unlock()
	case isMember:
		rank := m.Id.Rank
		err := s.transact(ctx, func(t *txn) error {
			t.then(func() { _ = s.step(generation.Left{Rank: rank}); s.broadcast() })
			return t.put(leftKey+fmt.Sprint(rank), &state.Left{Rank: rank})
		})
		if s.endedWell() {
			err = nil
		}
		return &rpc.LeaveResponse{}, err
	}
	return &rpc.LeaveResponse{}, nil
}

// over reports whether nothing can happen to the job any more, but that the servers hear of its end.
func (s *Server) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.machine.Now() == generation.Ended
}

func (s *Server) endedWell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.err == nil
}

// failed takes the leave of a trainer with a failure: one that another start cannot mend ends the job.
func (s *Server) failed(m *rpc.LeaveRequest) {
	if m.Failure.Where == "" {
		m.Failure.Where = trainerName(m.Id.Rank)
	}
	err := wire.FaultOf(m.Failure)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Fed || !mendable(fault.KindOf(err)) {
		s.finish(err)
		return
	}
	s.members.reasons[m.Id.Rank] = err.Error()
	for _, incarnation := range s.machine.Incarnations(m.Id.Rank) {
		_ = s.step(generation.Lost{Rank: m.Id.Rank, Incarnation: incarnation, Reason: err.Error()})
	}
}

// mendable reports whether a trainer that failed so may do better when it is started again.
func mendable(kind fault.Kind) bool {
	switch kind {
	case fault.InvalidProgram, fault.InvalidArgument, fault.TypeMismatch, fault.ShapeMismatch, fault.NotFound, fault.Unsupported, fault.Corrupt,
		fault.TooLarge,
		fault.NotFinite, fault.VerifyFailed, fault.Foreign:
		return false
	}
	return true
}

// Want says how many trainers an elastic job is to have.
func (s *Server) Want(trainers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members.wanted = trainers
	_ = s.step(generation.Wanted{Trainers: trainers})
}
