package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// memory is what a coordinator knows of members beside the membership. Server.mu guards it.
type memory struct {
	wanted  int
	saver   *uint32           // durable
	reasons map[uint32]string // why trainers have gone, by rank
	drained map[uint32]bool   // since the last generation began
	losses  map[uint32]int    // by rank: how often word of the loss of a trainer has come
}

// Join waits for a generation that has the trainer as a member.
func (s *Server) Join(ctx context.Context, m *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	rank, last := m.Id.Rank, m.Id.Generation
	if err := s.joined(ctx, generation.Joined{Rank: rank, Incarnation: m.Incarnation, Last: last}); err != nil {
		return nil, err
	}
	var r *rpc.JoinResponse
	err := s.await(ctx, waiting{who: trainerName(rank), what: "the other trainers"}, func() (bool, error) {
		if s.ended && s.err == nil || s.machine.Left(rank) {
			r = &rpc.JoinResponse{Fence: s.lead.Fence, DataEnded: true}
			return true, nil
		}
		g, ok := s.machine.Answer(rank, m.Incarnation, last)
		if !ok {
			return false, nil
		}
		var err error
		r, err = s.answer(rank, g)
		return true, err
	})
	return r, err
}

// answer is what a member has to know of its generation. s.mu is held.
func (s *Server) answer(rank uint32, g generation.Generation) (*rpc.JoinResponse, error) {
	member, _ := g.Member(rank)
	r := &rpc.JoinResponse{Trainers: uint32(len(g.Members)), Generation: member.Since, Position: uint32(g.Position(rank)), Fence: s.lead.Fence,
		DataEnded: len(s.queues) > 0}
	for name, q := range s.queues {
		r.DataEnded = r.DataEnded && q.Ended()
		if !s.cfg.Sync {
			continue
		}
		if end, ok := q.EndRound(); ok {
			r.EndRound = (*uint64)(&end)
		}
		if r.Segment = q.Segment(id.Round(g.Round)); r.Segment == nil {
			return nil, fault.E(fault.Internal, fault.At("dataset "+fault.Quote(name)),
				fault.Gotf("round %d, of which it is not known where it lies", g.Round))
		}
	}
	if s.cfg.Sync {
		r.Generation, r.Round = g.Number, g.Round
	}
	return r, nil
}

// Leave is a trainer's last message.
func (s *Server) Leave(ctx context.Context, m *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	member, isMember := s.machine.Generation().Member(m.Id.Rank)
	s.mu.Unlock()
	if s.endedWell() { // all others have left, and the servers have told that this one was about to
		return &rpc.LeaveResponse{}, nil
	}
	if isMember && m.Id.Generation > 0 && m.Id.Generation < member.Since {
		return nil, fault.E(fault.Stale, fault.At("coordinator"),
			fault.Gotf("leave of trainer %d as of generation %d", m.Id.Rank, m.Id.Generation),
			fault.Want("that of the process which took its place"))
	}
	switch {
	case m.Failure != nil:
		s.failed(m)
	case m.Drained:
		s.mu.Lock()
		s.members.drained[m.Id.Rank] = true
		_ = s.step(generation.Drained{Rank: m.Id.Rank})
		s.mu.Unlock()
	case isMember:
		rank := m.Id.Rank
		err := s.transact(ctx, func(t *txn) error {
			t.then(func() { _ = s.step(generation.Left{Rank: rank}); s.broadcast() })
			return t.put(leftKey+fmt.Sprint(rank), &state.Left{Rank: rank})
		})
		if s.endedWell() {
			err = nil
		}
		return &rpc.LeaveResponse{}, err
	}
	return &rpc.LeaveResponse{}, nil
}

// over reports whether nothing can happen to the job any more, but that the servers hear of its end.
func (s *Server) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.machine.Now() == generation.Ended
}

func (s *Server) endedWell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.err == nil
}

// failed takes the leave of a trainer with a failure: one that another start cannot mend ends the job.
func (s *Server) failed(m *rpc.LeaveRequest) {
	if m.Failure.Where == "" {
		m.Failure.Where = trainerName(m.Id.Rank)
	}
	err := wire.FaultOf(m.Failure)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Fed || !mendable(fault.KindOf(err)) {
		s.finish(err)
		return
	}
	s.members.reasons[m.Id.Rank] = err.Error()
	for _, incarnation := range s.machine.Incarnations(m.Id.Rank) {
		_ = s.step(generation.Lost{Rank: m.Id.Rank, Incarnation: incarnation, Reason: err.Error()})
	}
}

// mendable reports whether a trainer that failed so may do better when it is started again.
func mendable(kind fault.Kind) bool {
	switch kind {
	case fault.InvalidProgram, fault.InvalidArgument, fault.TypeMismatch, fault.ShapeMismatch, fault.NotFound, fault.Unsupported, fault.Corrupt,
		fault.TooLarge,
		fault.NotFinite, fault.VerifyFailed, fault.Foreign:
		return false
	}
	return true
}

// Want says how many trainers an elastic job is to have.
func (s *Server) Want(trainers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members.wanted = trainers
	_ = s.step(generation.Wanted{Trainers: trainers})
}

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

// RequestSaveModel elects the first trainer that asks, and answers it when all others have left: then nothing changes the model any more. The
// same trainer asking again is told the same, so that a repeated message does no harm. When the one that was elected is lost for good another is.
func (s *Server) RequestSaveModel(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	rank := m.Id.Rank
	granted := false
	err := s.transact(ctx, func(t *txn) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.isMember(m.Id); err != nil {
			return err
		}
		saver := s.members.saver
		if t.saver != nil { // elected by a request before this one
			saver = t.saver
		}
		if saver != nil && (*saver == rank || s.machine.Saves(*saver)) {
			granted = *saver == rank
			return nil
		}
		granted, t.saver = true, &rank
		t.then(func() { s.members.saver = &rank })
		return t.put(saverKey, &state.Saver{Rank: rank})
	})
	if err != nil || !granted {
		return &rpc.SaveModelResponse{}, err
	}
	w := waiting{who: trainerName(rank), what: "the other trainers to finish, before the model is saved", by: func() (names []string) {
		for _, other := range s.machine.Others(rank) {
			names = append(names, trainerName(other))
		}
		return names
	}}
	err = s.await(ctx, w, func() (bool, error) { return len(s.machine.Others(rank)) == 0, s.isMember(m.Id) })
	return &rpc.SaveModelResponse{Granted: true}, err
}

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
