package pserver

import (
	"context"
	"errors"
	"maps"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Freeze ends a generation. It answers at once, also while a round is being applied: the exchange of partial sums in that round may wait for a server
// that needs the Resume after this Freeze.
func (s *Server) Freeze(ctx context.Context, m *rpc.FreezeRequest) (*rpc.FreezeResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	answer, err := freeze(s, m.Id, false)
	if err == nil {
		err = s.core.mirror.tell(ctx)
	}
	return answer, err
}

// freeze is Freeze of a message that is admitted, or what Restore begins with.
func freeze(s *Server, who *rpc.Identity, restores bool) (*rpc.FreezeResponse, error) {
	c, from := s.core, wire.SenderOf(who)
	c.Lock()
	f, refused := c.step(Frozen{Generation: from.Generation, Fence: from.Fence, Restores: restores})
	state, err := c.machine.State(), c.Err()
	if refused == nil {
		c.freezes++
		c.carryOut(f)
		c.changed()
	}
	c.Unlock()
	switch {
	case refused != nil:
		return nil, c.refuse(refused)
	case err != nil:
		return nil, err
	}
	c.cfg.Log.Info("generation ended", "generation", from.Generation, "round", state.Round)
	r := &rpc.FreezeResponse{Generation: uint64(state.Generation), Round: uint64(state.Round), Declared: declaredMessages(state.Declared),
		Applied: declaredMessages(state.Applied), History: state.History, Lacks: state.Lacks}
	for _, rank := range state.Completed {
		r.Completed = append(r.Completed, uint32(rank))
	}
	return r, nil
}

// Resume begins a generation. Where it has a round to commit, it answers before that is applied: who asks for the values waits for them. A
// generation without members is the end of the job.
func (s *Server) Resume(ctx context.Context, m *rpc.ResumeRequest) (*rpc.ResumeResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	from := wire.SenderOf(m.Id)
	e := Resumed{Generation: from.Generation, Fence: from.Fence, Round: id.Round(m.Round)}
	for _, member := range m.Members {
		e.Members = append(e.Members, memberOf(member))
	}
	var refused error
	if e.Commit, refused = declarationsOf(m.Commit); refused != nil {
		return nil, s.core.refuse(refused)
	}
	if len(e.Members) == 0 {
		s.core.Lock()
		refused = dismiss(s, e)
		s.core.Unlock()
		if refused == nil {
			s.core.mirror.over(ctx)
			s.core.Lock()
			s.core.release()
			s.core.Unlock()
		}
	} else if err := s.core.Await(ctx, func() waits.Wait { return s.core.forRound(s.core.rounds.Round()) }, func() (bool, error) {
		var hold bool
		hold, refused = resume(s, e)
		return !hold, nil
	}); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, s.core.refuse(refused)
	}
	s.core.cfg.Log.Info("generation begun", "generation", e.Generation, "round", e.Round, "members", len(e.Members))
	if len(e.Members) > 0 {
		if err := s.core.mirror.tell(ctx); err != nil {
			return nil, err
		}
	}
	return &rpc.ResumeResponse{}, nil
}

// resume begins a generation with members, unless it has to wait for the end of a round. The lock is held.
func resume(s *Server, e Resumed) (hold bool, err error) {
	c := s.core
	if c.finished() && c.rounds != nil && e.Generation != c.machine.Generation() {
		return false, fault.E(fault.Stale, fault.At(c.Where), fault.Gotf("the start of generation %d", e.Generation),
			fault.Want("nothing more: every trainer has completed"))
	}
	f, err := c.step(e)
	if err != nil || f.Ignore || f.Hold {
		return f.Hold, err
	}
	c.inbox.keepFor(leaders(e.Members))
	if c.updates != nil {
		c.lines.keep(e)
	} else {
		c.lines.cut(e.Generation)
	}
	for _, m := range e.Members {
		if m.Since == e.Generation {
			c.heard[m.Rank] = time.Time{} // another process, which was not heard yet
		}
	}
	s.updaters.abandon()
	s.cuts.overtaken(c)
	c.carryOut(f)
	c.changed()
	return false, nil
}

// dismiss is told by a coordinator that every trainer has left: the server may be released. Nothing is under way then: before a trainer completes at any server, all servers have
// acknowledged all of its barriers. The lock is held.
func dismiss(s *Server, e Resumed) error {
	c := s.core
	switch {
	case e.Fence < c.machine.Fence():
		return fault.E(fault.Fenced, fault.Gotf("the end of the job from the coordinator with fence %d", e.Fence),
			fault.Wantf("fence %d or higher: another coordinator has taken over", c.machine.Fence()))
	case e.Generation < c.machine.Generation():
		return fault.E(fault.Stale, fault.Gotf("the end of the job in generation %d", e.Generation),
			fault.Wantf("generation %d or later", c.machine.Generation()))
	case c.finished():
	case c.rounds != nil && len(c.rounds.Missing()) > 0:
		return fault.E(fault.Internal, fault.Gotf("the end of the job after generation %d", e.Generation),
			fault.Want("a generation that every trainer has completed in, or that was ended"))
	case c.rounds == nil || c.rounds.idle():
		f, err := c.step(e)
		if err != nil {
			return err
		}
		s.updaters.abandon()
		c.carryOut(f)
		c.changed()
	}
	return nil
}

func memberOf(m *rpc.Member) Member {
	out := Member{Rank: id.Rank(m.GetRank()), Since: id.Generation(m.GetSince()), Leader: id.Rank(m.GetRank())}
	if m != nil && m.Leader != nil {
		out.Leader = id.Rank(*m.Leader)
	}
	return out
}

// leaders counts the members that contribute.
func leaders(members []Member) (n int) {
	for _, m := range members {
		if m.Leader == m.Rank {
			n++
		}
	}
	return n
}

// declarationsOf reads declarations, and refuses what are no records.
func declarationsOf(list []*rpc.Declared) (out []Declaration, err error) {
	for _, d := range list {
		declared := Declaration{Rank: id.Rank(d.GetRank()), Rows: d.GetRows(), Weight: d.GetWeight(), Void: d.GetVoid(), Pass: d.GetPass(), Records: wire.RangesOf(d.GetRecords()), Hour: d.GetHour(),
			Steps: d.GetSteps()}
		if err := checkRecords(declared.Pass, declared.Records); err != nil {
			return nil, err
		}
		out = append(out, declared)
	}
	return out, nil
}

func declaredMessages(list []Declaration) []*rpc.Declared {
	out := make([]*rpc.Declared, len(list))
	for i, d := range list {
		out[i] = &rpc.Declared{Rank: uint32(d.Rank), Rows: d.Rows, Weight: d.Weight, Void: d.Void, Pass: d.Pass, Records: wire.Ranges(d.Records), Hour: d.Hour,
			Steps: d.Steps}
	}
	return out
}

// checkJob refuses requests about another job.
func checkJob(asked, job string) error {
	if asked != job {
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(asked)), fault.Want("job "+job))
	}
	return nil
}

// Status tells what the server waits for, what it refused, and how much it has of tables.
func (s *Server) Status(_ context.Context, m *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	c := s.core
	if err := checkJob(m.Job, c.cfg.Identity.Job); err != nil {
		return nil, err
	}
	c.Lock()
	r := &rpc.StatusResponse{Refused: maps.Clone(c.refused), Bytes: s.bytes, Round: uint64(c.version()), Waits: c.waiting(), Standby: s.core.mirror.status()}
	serves := c.machine != nil
	if serves {
		r.Generation = uint64(c.machine.Generation())
	}
	c.Unlock()
	if serves {
		r.Tables = s.tables.status(s)
	}
	return r, nil
}

// Ledger tells which records the updates of this server were computed from. When the final state is asked for, it waits until nothing is added any
// more.
func (s *Server) Ledger(m *rpc.LedgerRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	ctx, c := stream.Context(), s.core
	if err := checkJob(m.Job, c.cfg.Identity.Job); err != nil {
		return err
	}
	if err := c.serves(ctx); err != nil {
		return err
	}
	if m.Final {
		select {
		case <-c.ended: // if not in good order, another process may go on with the ledger
			if err := failureOf(c); errors.Is(err, fault.Superseded) { // the ledger goes on in another placement
				return fault.E(fault.Unavailable, fault.At(c.Where), fault.Cause(err))
			}
		case <-ctx.Done():
			return waits.GaveUp(ctx, c.Where, waits.Wait{What: "the last update"})
		}
	}
	c.Lock()
	round, ledger, complete := c.version(), c.ledger, c.finished()
	var counts []PassCount
	var committed ranges.Set
	steps := id.Round(0)
	if c.updates != nil {
		steps = c.updates.steps
	}
	if ledger != nil {
		counts = ledger.Counts()
		if m.Ranges {
			committed = ledger.Committed(m.Pass)
		}
	}
	c.Unlock()
	if ledger == nil {
		return fault.E(fault.NotFound, fault.At(c.Where), fault.Got("a request for the ledger"), fault.Want("pserver 0, which keeps it"))
	}
	r := &rpc.LedgerResponse{Round: uint64(round), Steps: uint64(steps), Complete: complete}
	for _, p := range counts {
		pass := &rpc.PassLedger{Pass: p.Pass, Records: p.Records, Again: p.Again}
		if p.Pass == m.Pass {
			pass.Committed = wire.Ranges(committed)
		}
		r.Passes = append(r.Passes, pass)
	}
	err := wire.Send(stream, r)
	if err == nil && m.Final {
		select {
		case s.told <- struct{}{}:
		default:
		}
	}
	return err
}
