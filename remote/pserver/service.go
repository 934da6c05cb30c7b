package pserver

import (
	"context"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// admit checks the job of a message, and waits until the program serves.
func (s *Server) admit(ctx context.Context, m *rpc.Identity) error {
	if err := s.core.cfg.Identity.Check(m); err != nil {
		return s.core.refuse(err)
	}
	return s.core.serves(ctx)
}

// admitTrainer is admit for messages of trainers. It notes when the sender was heard.
func admitTrainer(ctx context.Context, s *Server, m *rpc.Identity) (Sender, error) {
	if err := s.admit(ctx, m); err != nil {
		return Sender{}, err
	}
	s.core.Lock()
	defer s.core.Unlock()
	s.core.heard.note(id.Rank(m.Rank))
	return Sender(wire.SenderOf(m)), s.core.Err()
}

// SendVariable receives one contribution. A trainer that sends one again is told so, and the bytes go into a buffer that nobody reads.
func (s *Server) SendVariable(stream grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
	ctx := stream.Context()
	var buffer, arrives *tensor.Tensor // arrives: the part of buffer for rows of a table
	var sent Received
	_, err := wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (*tensor.Tensor, error) {
		from, err := admitTrainer(ctx, s, h.Id)
		if err != nil {
			return nil, err
		}
		sent = Received{Sender: from, Variable: h.Name}
		if _, err := s.core.decide(ctx, Offered(sent)); err != nil {
			return nil, err
		}
		s.core.Lock()
		defer s.core.Unlock()
		if buffer, err = s.core.inbox.take(h.Name); err != nil || !s.core.inbox.rows[h.Name] {
			return buffer, err
		}
		arrives, err = rowsRoom(h, buffer)
		return arrives, err
	})
	taken := false
	if err == nil && arrives != nil {
		err = checkArrived(sent.Variable, buffer, arrives)
	}
	if err == nil {
		taken, err = deliver(s, sent, buffer)
	} else if buffer != nil {
		s.core.Lock()
		s.core.inbox.give(sent.Variable, buffer)
		s.core.Unlock()
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(&rpc.SendResponse{Duplicate: !taken})
}

// deliver enters a contribution that has arrived. It is not taken when another try came first, and refused when its generation has ended meanwhile, or when
// it cannot be merged.
// value, which may be nil, belongs to the server from then on.
func deliver(s *Server, e Received, value *tensor.Tensor) (taken bool, err error) {
	switch err = s.core.inbox.check(e.Variable, value); {
	case err != nil:
	case s.core.rounds != nil:
		taken, err = s.core.keep(e, value)
	default:
		taken, err = s.updaters.deliver(e, value)
	}
	if !taken && value != nil {
		s.core.Lock()
		s.core.inbox.give(e.Variable, value)
		s.core.Unlock()
	}
	switch {
	case err != nil:
		return taken, s.core.refuse(err)
	case !taken:
		s.core.duplicate("contribution", e.Variable, e.Sender)
	}
	return taken, nil
}

// SendBarrier declares a contribution complete. In async mode it enters the step in the ledger, so it goes to server 0 only.
func (s *Server) SendBarrier(ctx context.Context, m *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
	from, err := admitTrainer(ctx, s, m.Id)
	if err != nil {
		return nil, err
	}
	return &rpc.BarrierResponse{}, declare(ctx, s.core, from, m)
}

// declare takes the declaration of a trainer, whose identity is checked.
func declare(ctx context.Context, c *core, from Sender, m *rpc.BarrierRequest) error {
	e := Declared{Sender: from, Variables: int(m.Variables), Declaration: Declaration{Rows: m.Rows, Weight: m.Weight, Void: m.Void, Pass: m.Pass, Records: wire.RangesOf(m.Records), Hour: m.Hour,
		Steps: m.Steps}}
	err := checkRecords(e.Declaration.Pass, e.Declaration.Records)
	if err == nil {
		e.Group, err = declarationsOf(m.Group)
	}
	if err == nil {
		e.Counted, err = declarationsOf(m.Counted)
	}
	if err == nil {
		e.Totals, err = placesOf(m.Totals)
	}
	if err != nil {
		return c.refuse(err)
	}
	if c.updates != nil && c.ledger == nil {
		return c.refuse(fault.E(fault.InvalidArgument, fault.At(c.Where), fault.Got("a barrier in async mode"),
			fault.Want("one to pserver 0, which keeps the ledger")))
	}
	again, err := c.decide(ctx, e)
	if err == nil {
		err = asyncMirror{c.mirror}.entered(ctx)
	}
	if err != nil {
		return err
	}
	if again {
		c.duplicate("barrier", "", from)
	}
	return nil
}

// Complete says that a trainer contributes to no later round.
func (s *Server) Complete(ctx context.Context, m *rpc.CompleteRequest) (*rpc.CompleteResponse, error) {
	from, err := admitTrainer(ctx, s, m.Id)
	if err != nil {
		return nil, err
	}
	if _, err = s.core.decide(ctx, Completed{from}); err != nil {
		return nil, err
	}
	s.core.Lock()
	s.updaters.abandon()
	err = s.core.Err()
	s.core.Unlock()
	if err == nil {
		err = s.core.mirror.tell(ctx)
	}
	return &rpc.CompleteResponse{}, err
}

// GetVariable sends a variable: to a trainer in sync mode as it is after round id.round, in async mode with all of the trainer's own contributions;
// to another server the partial sums of a round, or rows that move to it.
func (s *Server) GetVariable(m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	ctx := stream.Context()
	if m.Exchange || m.Moves {
		if err := s.admit(ctx, m.Id); err != nil {
			return err
		}
		if m.Moves {
			return hand(s, m, stream)
		}
		return s.exchange.answer(ctx, m, stream)
	}
	from, err := admitTrainer(ctx, s, m.Id)
	if err != nil {
		return err
	}
	var e Event = Read{from}
	live := s.core.rounds != nil && !s.core.inbox.direct[m.Name]
	switch {
	case m.Final:
		e, live = ReadFinal{from}, false
	case m.AnyVersion:
		e, live = ReadAny{from}, false
	}
	if _, err := s.core.decide(ctx, e); err != nil {
		return err
	}
	t, ok := s.values.Variable(m.Name)
	if !ok {
		return s.core.refuse(fault.E(fault.NotFound, fault.Var(m.Name), fault.At(s.core.Where), fault.Got("a request for a variable that is not here")))
	}
	s.core.Lock()
	header := &rpc.VariableChunk{Name: m.Name, Version: uint64(s.core.version())}
	s.core.Unlock()
	if live {
		defer s.core.cfg.Times.Mark()
		// The value stays as it is until the asking trainer has declared the next round, which it does after it has received the value, or until its
		// generation has ended. Two answers may mix values of two versions: one to a call that its sender has given up, and one to a trainer of an
		// ended generation. Nobody reads the first, and nothing that the second trainer makes of it counts.
		return wire.SendVariable(stream, header, t, wire.Keep)
	}
	snapshot, err := s.values.snapshot(header, t, wire.Zeros(m.Zeros))
	if err != nil {
		return err
	}
	return snapshot.Send(stream)
}
