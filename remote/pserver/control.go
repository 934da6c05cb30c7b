package pserver

import (
	"context"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Freeze ends a generation. It answers at once, also while a round is being applied.
func (s *Server) Freeze(ctx context.Context, m *rpc.FreezeRequest) (*rpc.FreezeResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	d := s.machine.Step(eventOf(Freeze, m.Id))
	state, err := s.machine.State(), s.err
	if d.Verdict == Take {
		s.freezes++
		s.obey(d)
	}
	s.mu.Unlock()
	switch {
	case d.Verdict == Refuse:
		return nil, s.refusal(d.Err)
	case err != nil:
		return nil, err
	}
	s.cfg.Log.Info("generation ends", "generation", m.Id.Generation, "round", state.Round)
	r := &rpc.FreezeResponse{Generation: state.Generation, Round: state.Round, Declared: declaredMessages(state.Declared),
		Applied: declaredMessages(state.Applied)}
	for _, rank := range state.Completed {
		r.Completed = append(r.Completed, uint32(rank))
	}
	return r, nil
}

// Resume begins a generation. Where it has a round to commit, it answers before that is applied: who asks for the values waits for them.
func (s *Server) Resume(ctx context.Context, m *rpc.ResumeRequest) (*rpc.ResumeResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	e := eventOf(Resume, m.Id)
	e.Round = m.Round
	for _, member := range m.Members {
		e.Members = append(e.Members, Member{Rank: int(member.GetRank()), Since: member.GetSince()})
	}
	for _, c := range m.Commit {
		d := Declared{Rank: int(c.GetRank()), Rows: c.GetRows(), Pass: c.GetPass(), Records: rangesOf(c.GetRecords())}
		if err := checkRanges(d.Pass, d.Records); err != nil {
			return nil, s.refusal(err)
		}
		e.Commit = append(e.Commit, d)
	}
	begin := s.resume
	if len(e.Members) == 0 {
		begin = s.dismiss
	}
	if err := begin(e); err != nil {
		return nil, err
	}
	s.cfg.Log.Info("generation begins", "generation", e.Generation, "round", e.Round, "members", len(e.Members))
	return &rpc.ResumeResponse{}, nil
}

func (s *Server) resume(e Event) error {
	s.mu.Lock()
	if s.finished && s.rounds != nil && e.Generation != s.machine.Generation() {
		s.mu.Unlock()
		return s.refusal(fault.E(fault.Stale, fault.At(s.where()), fault.Got("the begin of generation "+itoa(e.Generation)),
			fault.Want("nothing more: every trainer has completed")))
	}
	d := s.machine.Step(e)
	if d.Verdict == Take {
		s.inbox.keep(len(e.Members))
		for _, m := range e.Members {
			if m.Since == e.Generation {
				s.seen[m.Rank] = time.Time{} // another process, which has not been heard of
			}
		}
		s.abandonParts()
		s.obey(d)
	}
	err := s.err
	s.mu.Unlock()
	if d.Verdict == Refuse {
		return s.refusal(d.Err)
	}
	return err
}

// dismiss takes the word of a coordinator that every trainer has left. Nothing is under way then: a trainer that has completed at any server has had
// all of its barriers acknowledged by all of them.
func (s *Server) dismiss(e Event) error {
	s.mu.Lock()
	d := Decision{Verdict: Take}
	switch {
	case e.Fence < s.machine.Fence():
		d = refuse(fault.Fenced, "the dismissal by the coordinator with fence %d", "the last one", e.Fence)
	case e.Generation < s.machine.Generation():
		d = refuse(fault.Stale, "the end of the job in generation %d", fmt.Sprintf("generation %d or later", s.machine.Generation()), e.Generation)
	case s.finished:
	case s.rounds != nil && len(s.rounds.Missing()) > 0:
		d = refuse(fault.Internal, "the end of the job after generation %d", "one that every trainer has completed in, or that was ended", e.Generation)
	case s.rounds == nil || s.rounds.idle():
		if d = s.machine.Step(e); d.Verdict == Take {
			s.abandonParts()
			s.obey(d)
		}
	}
	if d.Verdict != Refuse {
		s.letGo()
	}
	s.mu.Unlock()
	if d.Verdict == Refuse {
		return s.refusal(d.Err)
	}
	return nil
}

// letGo closes released. s.mu is held.
func (s *Server) letGo() {
	if !s.free {
		s.free = true
		close(s.released)
		s.broadcast()
	}
}

func declaredMessages(list []Declared) []*rpc.Declared {
	out := make([]*rpc.Declared, len(list))
	for i, d := range list {
		out[i] = &rpc.Declared{Rank: uint32(d.Rank), Rows: d.Rows, Pass: d.Pass, Records: rangeMessages(d.Records)}
	}
	return out
}
