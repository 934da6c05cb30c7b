package trainer

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Send starts sending a contribution. In async mode it first waits until the step before is in the ledger.
func (c *Comm) Send(ctx context.Context, m ops.Message) error {
	c.init()
	if err := c.check(m.Server); err != nil {
		return err
	}
	if err := c.Settle(); err != nil {
		return err
	}
	c.mu.Lock()
	c.sent[m.Server]++
	c.mu.Unlock()
	id, round := c.identity, c.step.Round
	c.sends.start(ctx, c.slots, func(ctx context.Context) error {
		return c.call(ctx, m.Server, "taking "+m.Name, func(ctx context.Context, to rpc.ParameterServerClient, attempt uint32) error {
			return send(ctx, to, &rpc.VariableChunk{Id: id.Of(c.Rank, round, attempt), Name: m.Name}, m.Value)
		})
	})
	return nil
}

// SendBarrier waits for all sends of the round and then declares the contribution complete at every server. From then on the end of the generation
// does not fail a sync step: it may have committed. Over tells.
func (c *Comm) SendBarrier(ctx context.Context) error {
	c.init()
	if err := c.sends.end(); err != nil || !c.Sync {
		return err
	}
	return c.orOver(c.everyServer(ctx, func(ctx context.Context, server int) error {
		return c.declare(ctx, server, c.identity, c.step.Round, c.declaration(server))
	}))
}

// declaration is the barrier of the step for one server, but for its identity.
func (c *Comm) declaration(server int) *rpc.BarrierRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &rpc.BarrierRequest{Rows: c.step.Rows, Variables: c.sent[server], Pass: c.pass, Records: c.records}
}

// declare sends the barrier of a round to one server. It may go on while the next step has begun.
func (c *Comm) declare(ctx context.Context, server int, id wire.Identity, round uint64, barrier *rpc.BarrierRequest) error {
	return c.call(ctx, server, fmt.Sprintf("the declaration of round %d", round),
		func(ctx context.Context, to rpc.ParameterServerClient, attempt uint32) error {
			barrier.Id = id.Of(c.Rank, round, attempt)
			_, err := to.SendBarrier(ctx, barrier, grpc.WaitForReady(false))
			return err
		})
}

// Complete tells every server that this trainer contributes to no later round.
func (c *Comm) Complete(ctx context.Context) error {
	c.init()
	id := c.identity
	return c.everyServer(ctx, func(ctx context.Context, server int) error {
		return c.call(ctx, server, "leave", func(ctx context.Context, to rpc.ParameterServerClient, attempt uint32) error {
			_, err := to.Complete(ctx, &rpc.CompleteRequest{Id: id.Of(c.Rank, c.step.Round, attempt)}, grpc.WaitForReady(false))
			return err
		})
	})
}

// Settle waits until every step that has ended is in the ledger. In sync mode it is there when the step ends.
func (c *Comm) Settle() error { return c.entries.end() }
