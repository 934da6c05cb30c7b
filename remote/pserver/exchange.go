package pserver

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// publication is what this server has published under a name: the values of the last two rounds. Two are enough: a server
// publishes for round r+2 only after every server has finished round r.
type publication struct {
	rounds [2]uint64
	values [2]*tensor.Tensor
}

// exchange publishes own and collects the values of all servers in server order.
func (s *Server) exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	if len(all) != s.cfg.Servers {
		return fault.E(fault.InvalidProgram, fault.Op("exchange_partials"), fault.Var(name), fault.Gotf("%d outputs", len(all)),
			fault.Wantf("one for each of %d servers", s.cfg.Servers))
	}
	if s.rounds == nil {
		return fault.E(fault.InvalidProgram, fault.Op("exchange_partials"), fault.Var(name), fault.Got("an exchange in async mode"))
	}
	round := s.publish(name, own)
	// Nobody changes meanwhile what is served, so it may be copied: the sums may be as far away as the end of a pause of the job.
	s.values.RUnlock()
	defer s.values.RLock()
	tasks := make([]func() error, len(all))
	for i := range all {
		tasks[i] = func() error {
			if i == s.cfg.Index {
				return all[i].CopyFrom(own)
			}
			defer s.fetching(i)()
			return s.fetchPublished(ctx, i, name, round, all[i])
		}
	}
	return inParallel(ctx, len(tasks), tasks)
}

// publish shows own to the other servers and returns the round that it is of.
func (s *Server) publish(name string, own *tensor.Tensor) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	round := s.rounds.Round()
	p := s.published[name]
	p.rounds[round%2], p.values[round%2] = round, own.Clone()
	s.published[name] = p
	s.broadcast()
	return round
}

// fetching notes that partial sums of a peer are awaited, which has a deadline while a generation is under way; what it returns notes the end.
func (s *Server) fetching(peer int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partials[peer]++
	s.broadcast()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.partials[peer]--; s.partials[peer] == 0 {
			delete(s.partials, peer)
		}
		s.broadcast()
	}
}

// identity is that of this server's own messages.
func (s *Server) identity() wire.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.cfg.Identity
	id.Generation, id.Fence = s.machine.Generation(), s.machine.Fence()
	return id
}

func (s *Server) fetchPublished(ctx context.Context, peer int, name string, round uint64, into *tensor.Tensor) error {
	client, err := s.cfg.Peer(peer)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("pserver %d", peer)
	return wire.Retry(ctx, func(attempt uint32) error {
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := client.GetVariable(call, &rpc.GetRequest{Id: s.identity().Of(uint32(s.cfg.Index), round, attempt), Name: name, Exchange: true})
		if err != nil {
			return wire.FromStatus(where, err)
		}
		_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
		return wire.FromStatus(where, err)
	})
}

// unpublished says what the partial sums of a round wait for that a peer asks for. It is a round that the peer is applying, so all of its
// contributions are here, and what this server lacks is barriers: of trainers that are about to send them, or, when those are lost, from the
// coordinator, as a round to commit. So the peer goes on waiting while the server is frozen. s.mu is held.
func (s *Server) unpublished(round uint64) wait {
	w := wait{what: "round " + itoa(round), ranks: s.rounds.Missing()}
	switch {
	case s.rounds.idle():
		w = wait{what: s.own.wait.what, by: s.own.wait.by}
	case len(w.ranks) == 0:
		w.by = []string{s.name()}
	}
	return w
}

// sendPublished answers a peer.
func (s *Server) sendPublished(ctx context.Context, m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	if err := s.admit(ctx, m.Id); err != nil {
		return err
	}
	if !s.layout.Sync {
		return s.refusal(fault.E(fault.InvalidArgument, fault.At(s.where()), fault.Got("a request for partial sums in async mode")))
	}
	slot := m.Id.Round % 2
	var t *tensor.Tensor
	var stale error
	err := s.await(ctx, func() wait { return s.unpublished(m.Id.Round) }, func() bool {
		s.machine.hear(m.Id.Fence)
		p := s.published[m.Name]
		switch {
		case p.values[slot] == nil || p.rounds[slot] < m.Id.Round:
			return false
		case p.rounds[slot] > m.Id.Round:
			stale = fault.E(fault.Stale, fault.Var(m.Name), fault.At(s.where()),
				fault.Got("a request for partial sums of round "+itoa(m.Id.Round)), fault.Want("round "+itoa(p.rounds[slot])))
		default:
			t = p.values[slot]
		}
		return true
	})
	if err != nil {
		return err
	}
	if stale != nil {
		return s.refusal(stale)
	}
	return wire.SendVariable(stream, &rpc.VariableChunk{Name: m.Name}, t)
}
