package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

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
		if s.cfg.Fed {
			s.Fail(fault.E(fault.LostMember, fault.At("coordinator"), fault.Got("no sign of life of "+m.String()), fault.Want("a living server"),
				fault.Hint("look at its log")))
			return nil
		}
		return s.lostServer(m.Index)
	case job.Role_TRAINER:
		return s.lostTrainer(ctx, m)
	}
	return nil
}

// lostServer lets another server take the place of one that had nothing to lose. The loss of any other cannot be mended here: who supervises the job
// ends it, or begins its history again, and the coordinator pauses until then, because its own end would tell less and be one more thing to mend. It
// fails where nobody does anything.
func (s *Server) lostServer(index int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.machine.Progressed() {
		return s.step(generation.ServerLost{Server: index})
	}
	if s.bereft[index] {
		return nil
	}
	s.bereft[index] = true
	since := time.Now()
	w := &waiting{who: "coordinator", what: "the job to begin again, because parameters are gone", since: since, until: since.Add(s.cfg.StartDeadline),
		by: func() []string { return []string{serverName(index)} }}
	s.waits[w] = true
	s.cfg.Log.Warn("the job pauses, because parameters are gone", "pserver", index)
	s.spawn(func() {
		if s.sleep(s.cfg.StartDeadline, true, nil) {
			_ = s.tell(generation.ServerLost{Server: index})
		}
	})
	return nil
}

func (s *Server) lostTrainer(ctx context.Context, m cluster.Member) error {
	s.mu.Lock()
	s.members.losses[uint32(m.Index)]++
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
		if s.cfg.Fed {
			s.finish(fault.E(fault.LostMember, fault.At("coordinator"), fault.Gotf("no sign of life of %v in %s", m, s.steps.progress()),
				fault.Want("a living trainer"), fault.Hint("look at its log: edl logs JOB trainer-"+fmt.Sprint(m.Index))))
		}
		_ = s.step(generation.Lost{Rank: uint32(m.Index), Incarnation: incarnation, Reason: s.members.reasons[uint32(m.Index)]})
	}
	return nil
}

// joined takes the word of a trainer that waits for a generation, unless its lease has ended: of that nobody would tell once more. The loss of a
// process that is known here will be told. For another the registry is asked, and again if word of a loss has come meanwhile, which may have been its
// own.
func (s *Server) joined(ctx context.Context, e generation.Joined) error {
	member := cluster.Member{Role: job.Role_TRAINER, Index: int(e.Rank)}
	for losses := -1; ; {
		s.mu.Lock()
		if s.cfg.Live == nil || losses == s.members.losses[e.Rank] || slices.Contains(s.machine.Incarnations(e.Rank), e.Incarnation) {
			defer s.mu.Unlock()
			if ctx.Err() != nil { // it does not wait any more, and may have taken leave since
				return gaveUp(ctx, "the other trainers")
			}
			return s.step(e)
		}
		losses = s.members.losses[e.Rank]
		s.mu.Unlock()
		live, err := s.cfg.Live(ctx)
		if err != nil {
			return err
		}
		if incarnation, lives := live[member]; !lives || incarnation != e.Incarnation {
			return fault.E(fault.Fenced, fault.At(member.String()), fault.Gotf("the process of revision %d without a lease", e.Incarnation),
				fault.Want("one that lives"))
		}
	}
}
