package pserver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// eventOf is the event of a message but for what its kind adds.
func eventOf(kind EventKind, id *rpc.Identity) Event {
	return Event{Kind: kind, Rank: int(id.Rank), Generation: id.Generation, Fence: id.Fence, Round: id.Round}
}

// open waits until the program serves.
func (s *Server) open(ctx context.Context) error {
	return s.await(ctx, func() wait { return wait{what: "its program to start", by: []string{s.name()}} }, func() bool { return s.layout != nil })
}

// admit checks the job of a message.
func (s *Server) admit(ctx context.Context, id *rpc.Identity) error {
	if err := s.cfg.Identity.Check(id); err != nil {
		return s.refusal(err)
	}
	return s.open(ctx)
}

// admitTrainer is admit for messages of trainers. It notes that the sender lives.
func (s *Server) admitTrainer(ctx context.Context, id *rpc.Identity) error {
	if err := s.admit(ctx, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(id.Rank) < len(s.seen) {
		s.seen[id.Rank] = time.Now()
	}
	return s.err
}

// refusal counts a message that must not count.
func (s *Server) refusal(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[fault.KindOf(err).String()]++
	s.cfg.Log.Warn("message refused", "reason", err.Error())
	return err
}

// duplicate counts a message that was applied before.
func (s *Server) duplicate(e Event, what string) {
	_ = s.refusal(fault.E(fault.Duplicate, fault.Var(e.Variable), fault.Gotf("trainer %d's %s to round %d again", e.Rank, what, e.Round)))
}

// decide asks the machine about a message, again after every change while it says Hold, and obeys. then is called with s.mu held when the message
// counts. The error is that of a refused message.
func (s *Server) decide(ctx context.Context, e Event, then func(Decision) error) (Verdict, error) {
	var d Decision
	var failed error
	err := s.await(ctx, func() wait { return s.holding(e) }, func() bool {
		d = s.machine.Step(e)
		if d.Verdict == Take && then != nil {
			failed = then(d)
		}
		if d.Verdict == Take && (e.Kind == Barrier || e.Kind == Complete) { // others change nothing yet
			s.obey(d)
		}
		return d.Verdict != Hold
	})
	switch {
	case err != nil:
		return d.Verdict, err
	case d.Verdict == Refuse:
		return d.Verdict, s.refusal(d.Err)
	}
	return d.Verdict, failed
}

// holding says what a message that the machine holds waits for. s.mu is held.
func (s *Server) holding(e Event) wait {
	switch {
	case e.Generation > s.machine.Generation():
		return wait{what: "generation " + itoa(e.Generation), by: []string{"coordinator"}, limit: s.cfg.StartDeadline}
	case e.Kind == ReadFinal:
		return wait{what: "the other trainers to complete", ranks: slices.DeleteFunc(s.machine.Missing(), func(r int) bool { return r == e.Rank })}
	case s.rounds != nil:
		w := wait{what: "round " + itoa(s.rounds.Round()), ranks: s.rounds.Missing()}
		if len(w.ranks) == 0 {
			w.by = []string{s.name()} // which is applying it
		}
		return w
	}
	return wait{what: fmt.Sprintf("contributions of trainer %d in the queues", e.Rank), by: []string{s.name()}}
}
