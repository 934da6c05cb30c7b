package trainer

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
)

// A pace keeps a trainer of an async job at most some pushes ahead of the others. Server 0 decides: it is asked after each push. The zero value asks
// nobody.
//
// A step that pushes then ends in another way: the trainer waits until all servers have applied the push, enters it in the ledger, asks to go on, and pulls
// when it may. So what it receives has every push that the bound asks for.
//
// asks and defers may be called by the ops of a step at the same time. The other methods follow each other.
type pace struct {
	bounded bool
	lead    uint32   // how many pushes the trainer may be ahead
	counted bool     // server 0 counts the trainer: others wait for it
	number  id.Round // of the next message

	mu       sync.Mutex
	deferred []ops.Message // what is to be received by calls, when the trainer goes on
}

// set makes the pace that of a job. A fed job has none: its batches go to whoever is free.
func (p *pace) set(spec *job.JobSpec, r *rhythm) {
	if spec.Fed || spec.Mode != job.Mode_ASYNC || spec.Staleness == nil {
		return
	}
	p.bounded, p.lead, r.confirming = true, uint32(*spec.Staleness), true
}

// restart begins a generation. A server that knows the trainer from the one before counts it on; another one begins when it is asked.
func (p *pace) restart() { p.counted, p.deferred = false, nil }

// asks reports whether the step ends with an ask.
func (p *pace) asks(r *rhythm) bool { return p.bounded && r.pushes }

// defers notes what is to be received by a call.
func (p *pace) defers(m ops.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deferred = append(p.deferred, m)
}

// barrier is FetchBarrier of a step that asks.
func (p *pace) barrier(ctx context.Context, c *Comm) error {
	if err := moreTelling(moreTelling(c.sends.end(), c.recvs.end()), c.ledger.await()); err != nil {
		return err
	}
	for _, m := range c.rhythm.asks {
		startReceiving(ctx, c, m, c.round()+1, false, false)
	}
	if err := moreTelling(c.recvs.end(), c.links.update(ctx, false)); err != nil {
		return err
	}
	c.ledger.declare(ctx, c)
	if err := c.ledger.await(); err != nil {
		return err
	}
	if err := p.ask(ctx, c); err != nil {
		return err
	}
	for _, m := range p.deferred {
		startReceiving(ctx, c, m, c.round()+1, false, false)
	}
	p.deferred = p.deferred[:0]
	err := c.recvs.end()
	if c.rhythm.pulls {
		err = moreTelling(err, c.links.pull(ctx))
	}
	c.Times.Enter(timing.Other)
	return err
}

// begin makes server 0 count the trainer, before its first step and the first one after a rest.
func (p *pace) begin(ctx context.Context, c *Comm) error {
	if !p.bounded || p.counted {
		return nil
	}
	return p.ask(ctx, c)
}

// ask returns when the trainer may go on, or is to end: then it begins no step.
func (p *pace) ask(ctx context.Context, c *Comm) error {
	p.counted = true
	ctx, cancel := c.caller.untilDrain(ctx)
	defer cancel()
	err := p.tell(ctx, c, fmt.Sprintf("permission to go on, at most %d pushes ahead", p.lead), false)
	if c.caller.draining() {
		return nil
	}
	return err
}

// rest says that no step follows for now: nobody waits for the trainer.
func (p *pace) rest(ctx context.Context, c *Comm) error {
	if !p.counted {
		return nil
	}
	p.counted = false
	return p.tell(ctx, c, "rest", true)
}

func (p *pace) tell(ctx context.Context, c *Comm, what string, rests bool) error {
	identity, number := c.identity, p.number
	p.number++
	return c.call(ctx, 0, what, func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error {
		_, err := to.Pace(ctx, &rpc.PaceRequest{Id: identity.Of(c.Rank, number, retry), Lead: p.lead, Rests: rests}, grpc.WaitForReady(false))
		return err
	})
}
