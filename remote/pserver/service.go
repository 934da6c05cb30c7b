package pserver

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// open waits until the program serves.
func (s *Server) open(ctx context.Context) error {
	return s.await(ctx, func() string { return "the pserver program to start" }, func() bool { return s.layout != nil })
}

// admit checks the identity of a message and notes that its sender lives.
func (s *Server) admit(ctx context.Context, id *rpc.Identity) error {
	if err := s.cfg.Identity.Check(id); err != nil {
		return s.refusal(err)
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hear(id.Rank)
	return s.err
}

// refusal counts a message that must not count.
func (s *Server) refusal(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[fault.KindOf(err).String()]++
	s.cfg.Log.Warn("message refused", "reason", err.Error())
	return err
}

// SendVariable receives one contribution.
func (s *Server) SendVariable(stream grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
	ctx := stream.Context()
	var buffer *tensor.Tensor
	var event Event
	_, err := wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (*tensor.Tensor, error) {
		if err := s.admit(ctx, h.Id); err != nil {
			return nil, err
		}
		event = Event{Rank: int(h.Id.Rank), Round: h.Id.Round, Variable: h.Name}
		var err error
		buffer, err = s.offer(ctx, event)
		return buffer, err
	})
	if err != nil {
		s.returnBuffer(event.Variable, buffer)
		return err
	}
	duplicate, err := s.deliver(event, buffer)
	if err != nil {
		return err
	}
	return stream.SendMsg(&rpc.SendResponse{Duplicate: duplicate})
}

// offer asks whether a contribution may be received and returns the buffer for it. A duplicate is received too, into a buffer that nobody
// reads, because its sender must learn that all is well.
func (s *Server) offer(ctx context.Context, e Event) (*tensor.Tensor, error) {
	e.Kind = Offer
	var verdict Verdict
	var refused error
	err := s.await(ctx, func() string { return "round " + itoa(e.Round) + " to open" }, func() bool {
		if s.layout.Sync {
			d := s.rounds.Step(e)
			verdict, refused = d.Verdict, d.Err
		} else {
			a := s.updates.Step(e)
			verdict, refused = a.Verdict, a.Err
		}
		return verdict != Hold
	})
	if err != nil {
		return nil, err
	}
	if verdict == Refuse {
		return nil, s.refusal(refused)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inbox.take(e.Variable)
}

// deliver enters a received contribution, unless another attempt came first.
func (s *Server) deliver(e Event, buffer *tensor.Tensor) (duplicate bool, err error) {
	e.Kind = Deliver
	var verdict Verdict
	if s.layout.Sync {
		verdict, err = s.deliverShare(e, buffer)
	} else {
		verdict, err = s.deliverUpdate(e, buffer)
	}
	switch {
	case verdict == Take:
		return false, nil
	case verdict == Refuse:
		s.returnBuffer(e.Variable, buffer)
		return false, s.refusal(err)
	}
	s.returnBuffer(e.Variable, buffer)
	s.duplicate(e, "contribution")
	return true, nil
}

// deliverShare enters a contribution to a sync round.
func (s *Server) deliverShare(e Event, buffer *tensor.Tensor) (Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.rounds.Step(e)
	if d.Verdict == Take {
		s.inbox.arrived[e.Variable][e.Rank] = buffer
		s.armRound()
	}
	return d.Verdict, d.Err
}

// duplicate counts a message that was applied before.
func (s *Server) duplicate(e Event, what string) {
	_ = s.refusal(&fault.Fault{Kind: fault.Duplicate, Variable: e.Variable, Got: fmt.Sprintf("trainer %d's %s to round %d again", e.Rank, what, e.Round)})
}

func (s *Server) returnBuffer(name string, t *tensor.Tensor) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.give(name, t)
}

// SendBarrier declares a contribution complete.
func (s *Server) SendBarrier(ctx context.Context, m *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	if !s.layout.Sync {
		return nil, s.refusal(fault.New(fault.InvalidArgument, "a barrier in async mode"))
	}
	e := Event{Kind: Barrier, Rank: int(m.Id.Rank), Round: m.Id.Round, Rows: m.Rows, Variables: int(m.Variables)}
	var d Decision
	err := s.await(ctx, func() string { return "round " + itoa(e.Round) + " to open" }, func() bool {
		if d = s.rounds.Step(e); d.Verdict == Hold {
			return false
		}
		if d.Verdict == Take {
			s.armRound()
			s.obey(d)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	switch d.Verdict {
	case Refuse:
		return nil, s.refusal(d.Err)
	case Ignore:
		s.duplicate(e, "barrier")
	}
	return &rpc.BarrierResponse{}, nil
}

// GetVariable sends a variable: in sync mode as it is after round id.round, in async mode with all of the asking trainer's own contributions.
func (s *Server) GetVariable(m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	ctx := stream.Context()
	if m.Exchange {
		return s.sendPublished(ctx, m, stream)
	}
	if err := s.admit(ctx, m.Id); err != nil {
		return err
	}
	if int(m.Id.Rank) >= s.cfg.Trainers {
		return s.refusal(&fault.Fault{Kind: fault.Foreign, Got: fmt.Sprintf("trainer %d", m.Id.Rank), Want: fmt.Sprintf("trainers 0 to %d", s.cfg.Trainers-1)})
	}
	if err := s.version(ctx, m); err != nil {
		return err
	}
	t, ok := s.blocks.Variable(m.Name)
	if !ok {
		return s.refusal(&fault.Fault{Kind: fault.NotFound, Variable: m.Name, Where: s.where(), Got: "a request for a variable that is not here"})
	}
	header := &rpc.VariableChunk{Name: m.Name, Version: s.current()}
	if s.layout.Sync && !m.AnyVersion && !m.Final {
		// The value cannot change before the asking trainer has declared the next round, which it does after it has received. What an attempt
		// that it gave up still sends may be torn, and nobody reads it.
		return wire.SendVariable(stream, header, t)
	}
	s.values.Lock()
	snapshot, err := wire.Snap(header, t)
	s.values.Unlock()
	if err != nil {
		return err
	}
	return snapshot.Send(stream)
}

// version waits until the value that a request asks for is there.
func (s *Server) version(ctx context.Context, m *rpc.GetRequest) error {
	rank := int(m.Id.Rank)
	switch {
	case m.Final:
		return s.await(ctx, func() string { return "the other trainers to complete: " + s.trainers(s.missing(rank)) }, func() bool {
			if s.layout.Sync {
				return s.rounds.OthersComplete(rank)
			}
			return s.updates.OthersComplete(rank) && s.updates.Pending(rank) == 0
		})
	case m.AnyVersion:
		return nil
	case s.layout.Sync:
		return s.round(ctx, m)
	}
	return s.await(ctx, func() string { return "contributions in the queues" }, func() bool { return s.updates.Pending(rank) == 0 })
}

// round waits until the sync round that a request asks for is the last one that was applied. A trainer asks for no other but the next.
func (s *Server) round(ctx context.Context, m *rpc.GetRequest) error {
	want, have := m.Id.Round, uint64(0)
	err := s.await(ctx, func() string { return "round " + itoa(have) + ": " + s.trainers(s.rounds.Missing()) }, func() bool {
		have = s.rounds.Round()
		return have >= want || want-have > 1
	})
	kind := fault.Stale
	switch {
	case err != nil:
		return err
	case have == want:
		return nil
	case have < want:
		kind = fault.Foreign
	}
	return s.refusal(&fault.Fault{Kind: kind, Variable: m.Name, Where: s.where(), Got: "a request for version " + itoa(want), Want: "version " + itoa(have)})
}

func (s *Server) missing(except int) []int {
	var ranks []int
	if s.layout.Sync {
		ranks = s.rounds.Missing()
	} else {
		ranks = s.updates.Missing()
	}
	return slices.DeleteFunc(ranks, func(r int) bool { return r == except })
}

// current is the version that is served: rounds or updates applied.
func (s *Server) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layout.Sync {
		return s.rounds.Round()
	}
	return s.applied
}

// Complete says that a trainer contributes to no later round.
func (s *Server) Complete(ctx context.Context, m *rpc.CompleteRequest) (*rpc.CompleteResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	if err := s.complete(Event{Kind: Complete, Rank: int(m.Id.Rank)}); err != nil {
		return nil, s.refusal(err)
	}
	return &rpc.CompleteResponse{}, nil
}

func (s *Server) complete(e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.layout.Sync {
		return s.completeUpdates(e).Err
	}
	d := s.rounds.Step(e)
	s.obey(d)
	if s.started && !s.rounds.Begun() {
		s.stopDeadline() // of a round that only this trainer had begun
	}
	return d.Err
}

// Status tells what the server waits for and what it refused.
func (s *Server) Status(_ context.Context, m *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Job != s.cfg.Identity.Job {
		return nil, &fault.Fault{Kind: fault.Foreign, Got: "job " + fault.Quote(m.Job), Want: "job " + s.cfg.Identity.Job}
	}
	r := &rpc.StatusResponse{Refused: map[string]uint64{}, Bytes: s.bytes}
	for k, n := range s.refused {
		r.Refused[k] = n
	}
	if s.rounds != nil {
		r.Round = s.rounds.Round()
	} else { // 0 before the program serves
		r.Round = s.applied
	}
	return r, nil
}
