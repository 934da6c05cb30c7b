package coordinator

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
)

// checkJob refuses a question about another job.
func (s *Server) checkJob(id string) error {
	if id != s.cfg.Identity.Job {
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(id)), fault.Want("job "+s.cfg.Identity.Job))
	}
	return nil
}

// checkFed refuses what only the user of an fed job may ask.
func (s *Server) checkFed() error {
	if !s.cfg.Fed {
		return fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Got("a feed for a job that reads its own data"),
			fault.Want("an fed job"))
	}
	return nil
}

// admit checks who speaks, and waits until this coordinator may answer. One that hears of a later coordinator ends.
func (s *Server) admit(ctx context.Context, id *rpc.Identity) error {
	if err := s.cfg.Identity.Check(id); err != nil {
		return err
	}
	if n := max(s.cfg.Trainers, s.cfg.TrainersMax); int64(id.Rank) >= int64(n) {
		return fault.E(fault.Foreign, fault.Got(trainerName(id.Rank)), fault.Wantf("trainers 0 to %d", n-1))
	}
	return s.await(ctx, waiting{what: "the coordinator's start"}, func() (bool, error) {
		if s.ready && id.Fence > s.lead.Fence {
			err := s.deposed(fmt.Sprintf("trainer %d has heard of fence %d", id.Rank, id.Fence))
			s.finish(err)
			return false, passing(err)
		}
		return s.ready, nil
	})
}

// admitFirst returns admit for the first piece of a request, and keeps who speaks.
func (s *Server) admitFirst(ctx context.Context, who **rpc.Identity) func(*rpc.Identity) error {
	return func(id *rpc.Identity) error {
		*who = id
		return s.admit(ctx, id)
	}
}

func (s *Server) deposed(got string) error {
	return fault.E(fault.Fenced, fault.At("coordinator"), fault.Got(got), fault.Wantf("the lock of fence %d", s.lead.Fence))
}

// isMember checks that a message comes from a member of the generation that trains now: fault.Superseded tells its sender to join the next one, and
// fault.Stale that another has taken its place. s.mu is held.
func (s *Server) isMember(id *rpc.Identity) error {
	g := s.machine.Generation()
	member, ok := g.Member(id.Rank)
	who := fmt.Sprintf("trainer %d of generation %d", id.Rank, id.Generation)
	switch {
	case id.Generation > g.Number:
		return fault.E(fault.Stale, fault.At("coordinator"), fault.Got(who), fault.Wantf("at most generation %d", g.Number))
	case !s.cfg.Sync && (!ok || member.Since != id.Generation):
		return fault.E(fault.Stale, fault.At("coordinator"), fault.Got(who), fault.Want("one that has not been given up"))
	case s.cfg.Sync && (!ok || id.Generation != g.Number || s.machine.Now() != generation.Running):
		return fault.E(fault.Superseded, fault.At("coordinator"), fault.Got(who), fault.Want("a member of the next generation"))
	}
	return nil
}
