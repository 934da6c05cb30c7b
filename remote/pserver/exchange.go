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
		return &fault.Fault{Kind: fault.InvalidProgram, Op: "exchange_partials", Variable: name, Got: fmt.Sprintf("%d outputs", len(all)), Want: fmt.Sprintf("one for each of %d servers", s.cfg.Servers)}
	}
	s.mu.Lock()
	round := s.rounds.Round()
	p := s.published[name]
	p.rounds[round%2], p.values[round%2] = round, own.Clone()
	s.published[name] = p
	s.broadcast()
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, s.cfg.RoundDeadline)
	defer cancel()
	tasks := make([]func() error, len(all))
	for i := range all {
		tasks[i] = func() error {
			if i == s.cfg.Index {
				return all[i].CopyFrom(own)
			}
			return s.fetchPublished(ctx, i, name, round, all[i])
		}
	}
	return inParallel(ctx, len(tasks), tasks)
}

func (s *Server) fetchPublished(ctx context.Context, peer int, name string, round uint64, into *tensor.Tensor) error {
	client, err := s.cfg.Peer(ctx, peer)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("pserver %d", peer)
	return wire.Retry(ctx, func(attempt uint32) error {
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := client.GetVariable(call, &rpc.GetRequest{Id: s.cfg.Identity.Of(uint32(s.cfg.Index), round, attempt), Name: name, Exchange: true})
		if err != nil {
			return wire.FromStatus(where, err)
		}
		_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
		return wire.FromStatus(where, err)
	})
}

// sendPublished answers a peer.
func (s *Server) sendPublished(ctx context.Context, m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	if err := s.cfg.Identity.Check(m.Id); err != nil {
		return s.refusal(err)
	}
	slot := m.Id.Round % 2
	var t *tensor.Tensor
	var stale error
	err := s.await(ctx, func() string { return fmt.Sprintf("partial sums of round %d for pserver %d", m.Id.Round, m.Id.Rank) }, func() bool {
		p := s.published[m.Name]
		switch {
		case p.values[slot] == nil || p.rounds[slot] < m.Id.Round:
			return false
		case p.rounds[slot] > m.Id.Round:
			stale = &fault.Fault{Kind: fault.Stale, Variable: m.Name, Where: s.where(), Got: "a request for partial sums of round " + itoa(m.Id.Round), Want: "round " + itoa(p.rounds[slot])}
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
