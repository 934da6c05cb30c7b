package coordinator

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
)

// Lost tells that the lease of a member has ended without its having left. A trainer that has come back since is known by its incarnation.
func (s *Server) Lost(ctx context.Context, m cluster.Member) error {
	err := s.await(ctx, waiting{what: "the coordinator's start"}, func() (bool, error) { return s.ready || s.ended, nil })
	if err != nil || s.over() {
		return nil // the job has ended, or the caller has
	}
	switch m.Role {
	case job.Role_PSERVER:
		if s.cfg.Interactive {
			s.Fail(&fault.Fault{Kind: fault.LostMember, Where: "coordinator", Got: "no sign of life of " + m.String(), Want: "a living server", Hint: "look at its log"})
			return nil
		}
		return s.tell(generation.ServerLost{Server: m.Index})
	case job.Role_TRAINER:
		return s.lostTrainer(ctx, m)
	}
	return nil
}

func (s *Server) lostTrainer(ctx context.Context, m cluster.Member) error {
	s.mu.Lock()
	known := s.machine.Incarnations(uint32(m.Index))
	s.mu.Unlock()
	live, err := s.cfg.Live(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, incarnation := range known {
		if live[m] == incarnation || s.machine.Now() == generation.Ended {
			continue
		}
		if s.cfg.Interactive {
			s.finish(&fault.Fault{Kind: fault.LostMember, Where: "coordinator", Got: fmt.Sprintf("no sign of life of %v in %s", m, s.steps.progress()),
				Want: "a living trainer", Hint: "look at its log: edl logs JOB trainer-" + fmt.Sprint(m.Index)})
		}
		_ = s.step(generation.Lost{Rank: uint32(m.Index), Incarnation: incarnation, Reason: s.members.reasons[uint32(m.Index)]})
	}
	return nil
}
