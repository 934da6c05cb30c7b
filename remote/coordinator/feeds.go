package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
)

// feed runs one fed step and returns what it fetched. A step that is repeated is not run again: its caller is given what it fetched, as long as no
// later step has been answered.
func (s *Server) feed(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	cut := split
	switch {
	case len(run.Feed) == 0:
		cut = readOnly
	case !s.cfg.Sync:
		cut = whole
	}
	shares, err := cut(s.cfg.Program, run, s.cfg.Trainers)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch {
	case s.feeds.closed:
		s.mu.Unlock()
		return nil, fault.New(fault.InvalidArgument, "the session has been closed")
	case run.Step > s.fed:
		s.mu.Unlock()
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("step %d", run.Step), fault.Wantf("step %d", s.fed))
	case run.Step == s.fed:
		ranks := []uint32{}
		for rank, share := range shares {
			if share != nil {
				s.feeds.shares[rank] = append(s.feeds.shares[rank], share)
				ranks = append(ranks, uint32(rank))
			}
		}
		s.steps.expected[run.Step] = ranks
		s.fed++
		s.broadcast()
	case run.Step < s.answered:
		s.mu.Unlock()
		return nil, fault.E(fault.Stale, fault.Gotf("step %d again", run.Step), fault.Wantf("step %d", s.fed))
	}
	s.mu.Unlock()
	var done *job.Step
	err = s.await(ctx, waiting{who: "the user", what: fmt.Sprintf("step %d", run.Step)}, func() (bool, error) {
		done = s.results[run.Step]
		return done != nil, nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.answered < run.Step {
		delete(s.results, s.answered)
		s.answered++
	}
	return done, nil
}

// feeds holds what is to be fed to each trainer. Server.mu guards it.
type feeds struct {
	shares [][]*rpc.FeedShare // by rank: those that the rank has not said to have trained
	first  []uint64           // by rank: number of the first of shares
	closed bool
}

func newFeeds(trainers int) feeds {
	return feeds{shares: make([][]*rpc.FeedShare, trainers), first: make([]uint64, trainers)}
}

// next returns share number n of a rank, nil when it is not there yet. A request for it says that those before have been trained.
func (f *feeds) next(rank int, n uint64) (*rpc.FeedShare, error) {
	if rank >= len(f.shares) {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("a request for a feed of trainer %d", rank),
			fault.Wantf("trainers 0 to %d", len(f.shares)-1))
	}
	first, end := f.first[rank], f.first[rank]+uint64(len(f.shares[rank]))
	switch {
	case n < first:
		return nil, fault.E(fault.Stale, fault.Gotf("a request for feed %d of trainer %d", n, rank), fault.Wantf("feed %d or later", first))
	case n > end:
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("a request for feed %d of trainer %d", n, rank), fault.Wantf("at most %d", end))
	}
	f.shares[rank], f.first[rank] = slices.Delete(f.shares[rank], 0, int(n-first)), n
	switch {
	case n < end:
		return f.shares[rank][0], nil
	case f.closed:
		return &rpc.FeedShare{End: true}, nil
	}
	return nil, nil
}

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

// NextFeed returns a trainer's share of a fed batch; item counts the shares that it has had.
func (s *Server) NextFeed(m *rpc.NextFeedRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	if err := s.admit(stream.Context(), m.Id); err != nil {
		return err
	}
	var share *rpc.FeedShare
	err := s.await(stream.Context(), waiting{who: trainerName(m.Id.Rank), what: "the user's next feed"}, func() (bool, error) {
		var err error
		share, err = s.feeds.next(int(m.Id.Rank), m.Item)
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
