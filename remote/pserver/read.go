package pserver

import (
	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// GetVariable sends a variable: in sync mode as it is after round id.round, in async mode with all of the asking trainer's own contributions.
func (s *Server) GetVariable(m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	ctx := stream.Context()
	if m.Exchange {
		return s.sendPublished(ctx, m, stream)
	}
	if err := s.admitTrainer(ctx, m.Id); err != nil {
		return err
	}
	kind := Read
	switch {
	case m.Final:
		kind = ReadFinal
	case m.AnyVersion:
		kind = ReadAny
	}
	if _, err := s.decide(ctx, eventOf(kind, m.Id), nil); err != nil {
		return err
	}
	t, ok := s.blocks.Variable(m.Name)
	if !ok {
		return s.refusal(fault.E(fault.NotFound, fault.Var(m.Name), fault.At(s.where()), fault.Got("a request for a variable that is not here")))
	}
	header := &rpc.VariableChunk{Name: m.Name, Version: s.current()}
	if s.layout.Sync && kind == Read {
		// The value cannot change before the asking trainer has declared the next round, which it does after it has received, or before its generation has
		// ended. What is still sent to an attempt that was given up, or to a trainer that was superseded, may be torn: the first has no reader, and nothing
		// that the second makes of it counts.
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

// current is the version that is served: rounds or updates applied.
func (s *Server) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rounds != nil {
		return s.rounds.Round()
	}
	return s.applied
}
