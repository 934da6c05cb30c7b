package trainer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Comm is the trainer's side of the wire: it carries out send, recv and the barriers of a trainer program. Sends run on goroutines of their
// own, so that they overlap with the backward pass; at most maxCalls are under way at once. It is used by one step at a time.
type Comm struct {
	Identity wire.Identity
	Rank     uint32
	Sync     bool
	Deadline time.Duration // of a round: every wait ends after it
	Servers  []rpc.ParameterServerClient

	step  ops.Step
	want  version
	round round
	slots chan struct{}
	once  sync.Once
}

// version says which value of a variable Recv asks for.
type version int

const (
	initial  version = iota // before the first round
	afterOwn                // sync: after this round; async: with all of this trainer's own contributions
	latest                  // as it is
	saved                   // after every other trainer has completed
)

// Begin says which step the following calls belong to, and which records it trains.
func (c *Comm) Begin(step ops.Step, records []dataset.Range) {
	c.step, c.want = step, afterOwn
	c.round.records = make([]*rpc.RecordRange, len(records))
	for i, r := range records {
		c.round.records[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
}

// Want makes the following Recv calls ask for another version, until the next Begin.
func (c *Comm) Want(v version) { c.want = v }

// maxCalls bounds the tensor calls that one trainer has under way.
const maxCalls = 16

// round collects what is under way in one step.
type round struct {
	sends, recvs group
	sent         []int32 // variables sent, by server
	records      []*rpc.RecordRange
}

// group waits for calls and keeps their first error.
type group struct {
	wait sync.WaitGroup
	mu   sync.Mutex
	err  error
}

func (g *group) start(slots chan struct{}, f func() error) {
	g.wait.Add(1)
	go func() {
		defer g.wait.Done()
		slots <- struct{}{}
		defer func() { <-slots }()
		if err := f(); err != nil {
			g.mu.Lock()
			g.err = worse(g.err, err)
			g.mu.Unlock()
		}
	}()
}

func (g *group) end() error {
	g.wait.Wait()
	err := g.err
	g.err = nil
	return err
}

// worse keeps the error that tells more: a call that was merely given up because another failed tells least.
func worse(a, b error) error {
	if a == nil || errors.Is(a, fault.Canceled) && !errors.Is(b, fault.Canceled) {
		return b
	}
	return a
}

var _ ops.Comm = (*Comm)(nil)

func (c *Comm) init() {
	c.once.Do(func() {
		c.slots = make(chan struct{}, maxCalls)
		c.round.sent = make([]int32, len(c.Servers))
	})
}

// client returns the connection to a server that a program names.
func (c *Comm) client(server int) (rpc.ParameterServerClient, string, error) {
	where := fmt.Sprintf("pserver %d", server)
	if server < 0 || server >= len(c.Servers) {
		return nil, where, &fault.Fault{Kind: fault.InvalidProgram, Where: where, Got: fmt.Sprintf("server %d", server), Want: fmt.Sprintf("0 to %d", len(c.Servers)-1)}
	}
	return c.Servers[server], where, nil
}

// Send starts sending a contribution.
func (c *Comm) Send(ctx context.Context, m ops.Message) error {
	c.init()
	client, where, err := c.client(m.Server)
	if err != nil {
		return err
	}
	c.round.sent[m.Server]++
	number := c.step.Round
	c.round.sends.start(c.slots, func() error {
		ctx, cancel := context.WithTimeout(ctx, c.Deadline)
		defer cancel()
		return wire.Retry(ctx, func(attempt uint32) error {
			return wire.FromStatus(where, send(ctx, client, &rpc.VariableChunk{Id: c.Identity.Of(c.Rank, number, attempt), Name: m.Name}, m.Value))
		})
	})
	return nil
}

// send makes one attempt. It returns only when the call has ended, so that m.Value may be written afterwards.
func send(ctx context.Context, client rpc.ParameterServerClient, header *rpc.VariableChunk, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.SendVariable(ctx)
	if err != nil {
		return err
	}
	if err := wire.SendVariable(stream, header, t); err != nil {
		if _, answer := stream.CloseAndRecv(); answer != nil {
			return answer // the server ended the call and says why
		}
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// SendBarrier waits for all sends of the round and then declares the contribution complete at every server.
func (c *Comm) SendBarrier(ctx context.Context) error {
	c.init()
	if err := c.round.sends.end(); err != nil {
		return err
	}
	return c.barrier(ctx, c.step.Rows)
}

func (c *Comm) barrier(ctx context.Context, rows int64) error {
	if !c.Sync {
		clear(c.round.sent)
		return nil
	}
	var calls group
	for i, client := range c.Servers {
		m := &rpc.BarrierRequest{Rows: rows, Variables: c.round.sent[i], Records: c.round.records}
		calls.start(c.slots, func() error {
			ctx, cancel := context.WithTimeout(ctx, c.Deadline)
			defer cancel()
			return wire.Retry(ctx, func(attempt uint32) error {
				m.Id = c.Identity.Of(c.Rank, c.step.Round, attempt)
				_, err := client.SendBarrier(ctx, m)
				return err
			})
		})
	}
	err := calls.end()
	clear(c.round.sent)
	return err
}

// Recv starts receiving a variable.
func (c *Comm) Recv(ctx context.Context, m ops.Message) error {
	c.init()
	if !c.Sync {
		// A trainer reads what it has written: its contributions are in the queues before it asks.
		if err := c.round.sends.end(); err != nil {
			return err
		}
		clear(c.round.sent)
	}
	client, where, err := c.client(m.Server)
	if err != nil {
		return err
	}
	request := rpc.GetRequest{Name: m.Name, Final: c.want == saved, AnyVersion: c.want == latest || c.want == initial && !c.Sync}
	round := c.step.Round + 1
	if c.want == initial {
		round = 0
	}
	c.round.recvs.start(c.slots, func() error {
		ctx, cancel := context.WithTimeout(ctx, c.Deadline)
		defer cancel()
		return wire.Retry(ctx, func(attempt uint32) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := client.GetVariable(ctx, &rpc.GetRequest{Id: c.Identity.Of(c.Rank, round, attempt), Name: request.Name, Final: request.Final, AnyVersion: request.AnyVersion})
			if err != nil {
				return wire.FromStatus(where, err)
			}
			_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return m.Value, nil })
			return wire.FromStatus(where, err)
		})
	})
	return nil
}

// FetchBarrier waits until everything is received.
func (c *Comm) FetchBarrier(context.Context) error {
	c.init()
	return c.round.recvs.end()
}

// Complete tells every server that this trainer contributes to no later round.
func (c *Comm) Complete(ctx context.Context) error {
	c.init()
	ctx, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	var calls group
	for _, client := range c.Servers {
		calls.start(c.slots, func() error {
			return wire.Retry(ctx, func(attempt uint32) error {
				_, err := client.Complete(ctx, &rpc.CompleteRequest{Id: c.Identity.Of(c.Rank, c.step.Round, attempt)})
				return err
			})
		})
	}
	return calls.end()
}

// Drain waits for calls that a failed step left behind, so that their tensors may be used again.
func (c *Comm) Drain() {
	_ = c.round.sends.end()
	_ = c.round.recvs.end()
}
