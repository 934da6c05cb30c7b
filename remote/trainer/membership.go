package trainer

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A generation is what a trainer knows of one that it is a member of.
type generation struct {
	*rpc.JoinResponse
	identity wire.Identity // of the messages in it
}

// membership is the sequence of a trainer's generations. now is safe for concurrent use.
type membership struct {
	coordinator rpc.CoordinatorClient
	rank        uint32
	incarnation uint64
	ask         asking
	known       bool // to a coordinator, or perhaps: a request has been sent

	current atomic.Pointer[generation]
}

// newMembership is that of a trainer which has not joined yet. identity is without generation.
func newMembership(cfg *Config, ask asking) *membership {
	m := &membership{coordinator: cfg.Coordinator, rank: cfg.Rank, incarnation: cfg.Incarnation, ask: ask}
	m.current.Store(&generation{&rpc.JoinResponse{}, cfg.Identity})
	return m
}

// errEnded is what next returns when the job has ended without this trainer: nobody waits for it.
var errEnded = errors.New("the job has ended")

// now is the last generation that was joined, number 0 before the first.
func (m *membership) now() *generation { return m.current.Load() }

// next joins a generation newer than the last one. There is no deadline: the coordinator has one for those whom it waits for.
func (m *membership) next(ctx context.Context) (*generation, error) {
	last := m.now()
	ctx, cancel := m.ask.untilDrain(ctx)
	defer cancel()
	var answer *rpc.JoinResponse
	err := m.ask.call(ctx, question{"coordinator", "the next generation"}, func(ctx context.Context, attempt uint32) error {
		var err error
		var to peer.Peer
		answer, err = m.coordinator.Join(ctx, &rpc.JoinRequest{Id: last.identity.Of(m.rank, 0, attempt), Incarnation: m.incarnation},
			grpc.WaitForReady(false), grpc.Peer(&to))
		m.known = m.known || err == nil || to.Addr != nil
		return err
	})
	if err != nil {
		return nil, err
	}
	if answer.DataEnded && answer.Generation == 0 {
		return nil, errEnded
	}
	if answer.Generation <= last.Generation {
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("generation %d", answer.Generation),
			fault.Wantf("one after %d", last.Generation))
	}
	next := &generation{answer, last.identity}
	next.identity.Generation, next.identity.Fence = answer.Generation, max(answer.Fence, last.identity.Fence)
	m.current.Store(next)
	return next, nil
}
