package pserver

import (
	"context"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Ledger tells which records the updates of this server were computed from; when the final state is asked for, it waits until nothing is added any
// more.
func (s *Server) Ledger(m *rpc.LedgerRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	r, err := s.showLedger(stream.Context(), m)
	if err != nil {
		return err
	}
	return wire.Send(stream, r)
}

func (s *Server) showLedger(ctx context.Context, m *rpc.LedgerRequest) (*rpc.LedgerResponse, error) {
	if err := s.sameJob(m.Job); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if m.Final {
		select {
		case <-s.done:
		case <-s.failed:
		case <-ctx.Done():
			return nil, fault.E(contextKind(ctx), fault.At(s.where()), fault.Got("no end of waiting for the last update"),
				fault.Cause(context.Cause(ctx)))
		}
	}
	round, counts, committed, err := s.readLedger(m)
	if err != nil {
		return nil, err
	}
	r := &rpc.LedgerResponse{Round: round}
	for _, c := range counts {
		p := passMessage(c)
		if c.Pass == m.Pass {
			p.Committed = rangeMessages(committed)
		}
		r.Passes = append(r.Passes, p)
	}
	return r, nil
}

// readLedger copies what an answer is made of, because making messages of it would hold up training.
func (s *Server) readLedger(m *rpc.LedgerRequest) (round uint64, counts []PassCount, committed []Range, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger == nil {
		return 0, nil, nil, fault.E(fault.NotFound, fault.At(s.where()), fault.Got("a request for the ledger"),
			fault.Want("pserver 0, which keeps it"))
	}
	round = s.applied
	if s.rounds != nil {
		round = s.rounds.Round()
	}
	if m.Ranges {
		committed = s.ledger.Committed(m.Pass)
	}
	return round, s.ledger.Counts(), committed, nil
}
