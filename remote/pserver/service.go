package pserver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
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

// SendVariable receives one contribution.
func (s *Server) SendVariable(stream grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
	ctx := stream.Context()
	var buffer *tensor.Tensor
	var event Event
	_, err := wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (*tensor.Tensor, error) {
		if err := s.admitTrainer(ctx, h.Id); err != nil {
			return nil, err
		}
		event = eventOf(Offer, h.Id)
		event.Variable = h.Name
		var err error
		buffer, err = s.offer(ctx, event)
		return buffer, err
	})
	if err != nil {
		s.returnBuffer(event.Variable, buffer)
		return err
	}
	event.Kind = Deliver
	duplicate, err := s.deliver(event, buffer)
	if err != nil {
		return err
	}
	return stream.SendMsg(&rpc.SendResponse{Duplicate: duplicate})
}

// offer asks whether a contribution may be received and returns the buffer for it. A duplicate is received too, into a buffer that nobody
// reads, because its sender must learn that all is well.
func (s *Server) offer(ctx context.Context, e Event) (*tensor.Tensor, error) {
	if _, err := s.decide(ctx, e, nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inbox.take(e.Variable)
}

// deliver enters a received contribution, unless another attempt came first, or its generation has ended meanwhile.
func (s *Server) deliver(e Event, buffer *tensor.Tensor) (duplicate bool, err error) {
	var verdict Verdict
	if s.layout.Sync {
		verdict, err = s.deliverShare(e, buffer)
	} else {
		verdict, err = s.deliverUpdate(e, buffer)
	}
	switch {
	case verdict == Take:
		return false, nil
	case verdict == Refuse:
		s.returnBuffer(e.Variable, buffer)
		return false, s.refusal(err)
	}
	s.returnBuffer(e.Variable, buffer)
	s.duplicate(e, "contribution")
	return true, nil
}

// deliverShare enters a contribution to a sync round.
func (s *Server) deliverShare(e Event, buffer *tensor.Tensor) (Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.machine.Step(e)
	if d.Verdict == Take {
		s.inbox.arrived[e.Variable][e.Rank] = buffer
		s.watch()
	}
	return d.Verdict, d.Err
}

func (s *Server) returnBuffer(name string, t *tensor.Tensor) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.give(name, t)
}

// SendBarrier declares a contribution complete. In async mode it enters the step in the ledger, so it goes to server 0 only.
func (s *Server) SendBarrier(ctx context.Context, m *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
	if err := s.admitTrainer(ctx, m.Id); err != nil {
		return nil, err
	}
	e := eventOf(Barrier, m.Id)
	e.Variables, e.Share = int(m.Variables), Declared{Rank: e.Rank, Rows: m.Rows, Pass: m.Pass, Records: rangesOf(m.Records)}
	if err := checkRanges(m.Pass, e.Share.Records); err != nil {
		return nil, s.refusal(err)
	}
	if !s.layout.Sync && s.ledger == nil {
		return nil, s.refusal(fault.E(fault.InvalidArgument, fault.At(s.where()), fault.Got("a barrier in async mode"),
			fault.Want("one to pserver 0, which keeps the ledger")))
	}
	verdict, err := s.decide(ctx, e, func(d Decision) error {
		if d.Commit == nil {
			return nil
		}
		err := s.enter(*d.Commit)
		if err != nil {
			s.fail(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if verdict == Ignore {
		s.duplicate(e, "barrier")
	}
	return &rpc.BarrierResponse{}, nil
}

// Complete says that a trainer contributes to no later round.
func (s *Server) Complete(ctx context.Context, m *rpc.CompleteRequest) (*rpc.CompleteResponse, error) {
	if err := s.admitTrainer(ctx, m.Id); err != nil {
		return nil, err
	}
	_, err := s.decide(ctx, eventOf(Complete, m.Id), func(Decision) error {
		s.abandonParts()
		return nil
	})
	return &rpc.CompleteResponse{}, err
}

// enter puts what an update was made of into the ledger, on the server that keeps it. s.mu is held.
func (s *Server) enter(d Declared) error {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Commit(d.Pass, d.Records)
}

// GetVariable sends a variable: in sync mode as it is after round id.round, in async mode with all of the asking trainer's own contributions.
func (s *Server) GetVariable(m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	ctx := stream.Context()
	if m.Exchange {
		return s.sendPublished(ctx, m, stream)
	}
	if err := s.admitTrainer(ctx, m.Id); err != nil {
		return err
	}
	kind := Read
	switch {
	case m.Final:
		kind = ReadFinal
	case m.AnyVersion:
		kind = ReadAny
	}
	if _, err := s.decide(ctx, eventOf(kind, m.Id), nil); err != nil {
		return err
	}
	t, ok := s.blocks.Variable(m.Name)
	if !ok {
		return s.refusal(fault.E(fault.NotFound, fault.Var(m.Name), fault.At(s.where()), fault.Got("a request for a variable that is not here")))
	}
	header := &rpc.VariableChunk{Name: m.Name, Version: s.current()}
	if s.layout.Sync && kind == Read {
		// The value cannot change before the asking trainer has declared the next round, which it does after it has received, or before its generation has
		// ended. What is still sent to an attempt that was given up, or to a trainer that was superseded, may be torn: the first has no reader, and nothing
		// that the second makes of it counts.
		return wire.SendVariable(stream, header, t)
	}
	s.values.Lock()
	snapshot, err := wire.Snap(header, t)
	s.values.Unlock()
	if err != nil {
		return err
	}
	return snapshot.Send(stream)
}

// current is the version that is served: rounds or updates applied.
func (s *Server) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rounds != nil {
		return s.rounds.Round()
	}
	return s.applied
}
