package pserver

import (
	"context"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// SendVariable receives one contribution.
func (s *Server) SendVariable(stream grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
	ctx := stream.Context()
	var buffer *tensor.Tensor
	var event Event
	_, err := wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (*tensor.Tensor, error) {
		if err := s.admitTrainer(ctx, h.Id); err != nil {
			return nil, err
		}
		event = eventOf(Offer, h.Id)
		event.Variable = h.Name
		var err error
		buffer, err = s.offer(ctx, event)
		return buffer, err
	})
	if err != nil {
		s.returnBuffer(event.Variable, buffer)
		return err
	}
	event.Kind = Deliver
	duplicate, err := s.deliver(event, buffer)
	if err != nil {
		return err
	}
	return stream.SendMsg(&rpc.SendResponse{Duplicate: duplicate})
}

// offer asks whether a contribution may be received and returns the buffer for it. A duplicate is received too, into a buffer that nobody
// reads, because its sender must learn that all is well.
func (s *Server) offer(ctx context.Context, e Event) (*tensor.Tensor, error) {
	if _, err := s.decide(ctx, e, nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inbox.take(e.Variable)
}

// deliver enters a received contribution, unless another attempt came first, or its generation has ended meanwhile.
func (s *Server) deliver(e Event, buffer *tensor.Tensor) (duplicate bool, err error) {
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
	d := s.machine.Step(e)
	if d.Verdict == Take {
		s.inbox.arrived[e.Variable][e.Rank] = buffer
		s.watch()
	}
	return d.Verdict, d.Err
}

func (s *Server) returnBuffer(name string, t *tensor.Tensor) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.give(name, t)
}

// SendBarrier declares a contribution complete. In async mode it enters the step in the ledger, so it goes to server 0 only.
func (s *Server) SendBarrier(ctx context.Context, m *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
	if err := s.admitTrainer(ctx, m.Id); err != nil {
		return nil, err
	}
	e := eventOf(Barrier, m.Id)
	e.Variables, e.Share = int(m.Variables), Declared{Rank: e.Rank, Rows: m.Rows, Pass: m.Pass, Records: rangesOf(m.Records)}
	if err := checkRanges(m.Pass, e.Share.Records); err != nil {
		return nil, s.refusal(err)
	}
	if !s.layout.Sync && s.ledger == nil {
		return nil, s.refusal(fault.E(fault.InvalidArgument, fault.At(s.where()), fault.Got("a barrier in async mode"),
			fault.Want("one to pserver 0, which keeps the ledger")))
	}
	verdict, err := s.decide(ctx, e, func(d Decision) error {
		if d.Commit == nil {
			return nil
		}
		err := s.enter(*d.Commit)
		if err != nil {
			s.fail(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if verdict == Ignore {
		s.duplicate(e, "barrier")
	}
	return &rpc.BarrierResponse{}, nil
}

// Complete says that a trainer contributes to no later round.
func (s *Server) Complete(ctx context.Context, m *rpc.CompleteRequest) (*rpc.CompleteResponse, error) {
	if err := s.admitTrainer(ctx, m.Id); err != nil {
		return nil, err
	}
	_, err := s.decide(ctx, eventOf(Complete, m.Id), func(Decision) error {
		s.abandonParts()
		return nil
	})
	return &rpc.CompleteResponse{}, err
}

// enter puts what an update was made of into the ledger, on the server that keeps it. s.mu is held.
func (s *Server) enter(d Declared) error {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Commit(d.Pass, d.Records)
}
