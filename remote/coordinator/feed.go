package coordinator

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
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
