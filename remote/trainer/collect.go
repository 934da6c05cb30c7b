package trainer

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
)

// version says which value of a variable Recv asks for.
type version int

const (
	initial  version = iota // before the first round of the generation
	afterOwn                // sync: after this round; async: with all of this trainer's own contributions
	latest                  // as it is
	saved                   // after every other trainer has completed
)

// Want makes the following Recv calls ask for another version, until the next Begin.
func (c *Comm) Want(v version) { c.want = v }

// Recv starts receiving a variable.
func (c *Comm) Recv(ctx context.Context, m ops.Message) error {
	c.init()
	if !c.Sync {
		// A trainer reads what it has written: its contributions are in the queues before it asks.
		if err := c.sends.end(); err != nil {
			return err
		}
	}
	if err := c.check(m.Server); err != nil {
		return err
	}
	request := rpc.GetRequest{Name: m.Name, Final: c.want == saved, AnyVersion: c.want == latest || c.want == initial && !c.Sync}
	round := c.step.Round + 1
	if c.want == initial {
		round = c.first
	}
	if c.Over() != nil {
		return nil
	}
	id := c.identity
	c.recvs.start(ctx, c.slots, func(ctx context.Context) error {
		return c.call(ctx, m.Server, fmt.Sprintf("%s of round %d", m.Name, round),
			func(ctx context.Context, from rpc.ParameterServerClient, attempt uint32) error {
				return receive(ctx, from, &rpc.GetRequest{Id: id.Of(c.Rank, round, attempt), Name: request.Name, Final: request.Final,
					AnyVersion: request.AnyVersion}, m.Value)
			})
	})
	return nil
}

// FetchBarrier waits until everything is received. In async mode it starts entering the step in the ledger: everything of it has arrived.
func (c *Comm) FetchBarrier(ctx context.Context) error {
	if err := c.orOver(c.recvs.end()); err != nil || c.Sync || c.want != afterOwn || len(c.records) == 0 {
		return err
	}
	if err := c.sends.end(); err != nil {
		return err
	}
	id, round, barrier := c.identity, c.step.Round, c.declaration(0)
	c.entries.start(ctx, c.slots, func(ctx context.Context) error { return c.declare(ctx, 0, id, round, barrier) })
	return nil
}
