package pserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
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

// sameJob refuses questions about another job.
func (s *Server) sameJob(id string) error {
	if id != s.cfg.Identity.Job {
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(id)), fault.Want("job "+s.cfg.Identity.Job))
	}
	return nil
}

// Status tells what the server waits for and what it refused.
func (s *Server) Status(_ context.Context, m *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	if err := s.sameJob(m.Job); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rpc.StatusResponse{Refused: maps.Clone(s.refused), Bytes: s.bytes, Round: s.applied, Waits: s.waitMessages()}
	if s.machine != nil { // not before the program serves
		r.Generation = s.machine.Generation()
	}
	if s.rounds != nil {
		r.Round = s.rounds.Round()
	}
	return r, nil
}

// waitMessages tells each thing that is waited for once: first what the server itself waits for, then what calls do, the oldest first. s.mu is held.
func (s *Server) waitMessages() []*job.Wait {
	calls := slices.SortedFunc(maps.Values(s.waits), func(a, b wait) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.what, b.what)) })
	all := calls
	if s.own.timer != nil {
		all = append([]wait{s.own.wait}, calls...)
	}
	told := map[string]bool{}
	var list []*job.Wait
	for _, w := range all {
		if told[w.what] {
			continue
		}
		told[w.what] = true
		m := &job.Wait{Who: s.name(), What: w.what, By: w.names(), Since: timestamppb.New(w.since), LastError: s.lastHeard(w.ranks)}
		if w.limit > 0 {
			m.Until = timestamppb.New(w.since.Add(w.limit))
		}
		list = append(list, m)
	}
	return list
}

// lastHeard says when ranks were last heard of. s.mu is held.
func (s *Server) lastHeard(ranks []int) string {
	if len(ranks) == 1 {
		return s.heard(ranks[0])
	}
	var list []string
	for _, rank := range ranks {
		list = append(list, fmt.Sprintf("trainer %d %s", rank, s.heard(rank)))
	}
	return strings.Join(list, ", ")
}

// heard says when a rank was last heard of. s.mu is held.
func (s *Server) heard(rank int) string {
	if t := s.seen[rank]; !t.IsZero() {
		return fmt.Sprintf("last heard of %v ago", time.Since(t).Round(time.Millisecond))
	}
	return "never heard of"
}

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
