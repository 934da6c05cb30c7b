package coordinator

import (
	"context"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/wire"
)

// ReportStep takes what a trainer fetched.
func (s *Server) ReportStep(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportStepResponse]) error {
	m := &rpc.TrainerStep{}
	var id *rpc.Identity
	if err := wire.ReceiveFrom("trainer", stream, m, wire.MaxStep, s.admitFirst(stream.Context(), &id)); err != nil {
		return err
	}
	m.Id = id
	if err := checkReport(m); err != nil {
		return err
	}
	if err := s.report(m); err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportStepResponse{})
}

func (s *Server) report(m *rpc.TrainerStep) error {
	s.locked(func() {
		if m.Pending && !s.mayCount(m.Id) {
			return
		}
		steps := s.steps.add(m)
		s.teller.queue = append(s.teller.queue, steps...)
		if len(steps) > 0 {
			_ = s.step(generation.Progress{})
		}
	})
	return s.tellSteps()
}

// mayCount reports whether the round of a pending report has committed, or will be known to have when the next generation begins. One that comes
// later is not counted: it is not known where its generation ended. s.mu is held.
func (s *Server) mayCount(id *rpc.Identity) bool {
	g := s.machine.Generation()
	return id.Generation == g.Number || id.Generation+1 == g.Number && id.Round < g.Round
}

// NextFeed returns a trainer's share of a fed batch; id.round counts the shares that it has had.
func (s *Server) NextFeed(m *rpc.NextFeedRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	if err := s.admit(stream.Context(), m.Id); err != nil {
		return err
	}
	var share *rpc.FeedShare
	err := s.await(stream.Context(), waiting{who: trainerName(m.Id.Rank), what: "the user's next feed"}, func() (bool, error) {
		var err error
		share, err = s.feeds.next(int(m.Id.Rank), m.Id.Round)
		return share != nil, err
	})
	if err != nil {
		return err
	}
	return wire.Send(stream, share)
}

// Feed runs one fed step over all trainers.
func (s *Server) Feed(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	if err := s.checkFed(); err != nil {
		return err
	}
	run := &rpc.StepRun{}
	if err := wire.ReceiveFrom("the user", stream, run, wire.MaxStep, s.cfg.Identity.Check); err != nil {
		return err
	}
	step, err := s.feed(stream.Context(), run)
	if err != nil {
		return err
	}
	return wire.Send(stream, &rpc.StepDone{Step: step})
}

// CloseFeed ends an fed job: trainers see the end of their data.
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
