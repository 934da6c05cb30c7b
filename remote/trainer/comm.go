package trainer

import (
	"context"
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

// Comm is the trainer's side of the wire: it carries out send, recv and the barriers of a trainer program. Calls that move tensors run on goroutines of
// their own, so that they overlap with the backward pass; at most maxCalls are under way at once. It is used by one step at a time, whose
// ops may run at the same time.
type Comm struct {
	Identity wire.Identity
	Rank     uint32
	Sync     bool
	Deadline time.Duration // of a round: every wait ends soon after it
	Servers  []rpc.ParameterServerClient

	step    ops.Step
	want    version
	records []*rpc.RecordRange // of the step
	sends   calls
	recvs   calls
	slots   chan struct{}
	once    sync.Once

	mu   sync.Mutex
	sent []int32 // variables sent in this round, by server
}

// maxCalls bounds the tensor calls that one trainer has under way.
const maxCalls = 16

// slack is how much longer than a server a trainer waits for a round, so that it is the server which gives up first, and says who is missing.
const slack = 2 * time.Second

// version says which value of a variable Recv asks for.
type version int

const (
	initial  version = iota // before the first round
	afterOwn                // sync: after this round; async: with all of this trainer's own contributions
	latest                  // as it is
	saved                   // after every other trainer has completed
)

var _ ops.Comm = (*Comm)(nil)

// Begin says which step the following calls belong to, and which records it trains.
func (c *Comm) Begin(step ops.Step, records []dataset.Range) {
	c.step, c.want = step, afterOwn
	c.records = make([]*rpc.RecordRange, len(records))
	for i, r := range records {
		c.records[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
}

// Want makes the following Recv calls ask for another version, until the next Begin.
func (c *Comm) Want(v version) { c.want = v }

func (c *Comm) init() {
	c.once.Do(func() {
		c.slots = make(chan struct{}, maxCalls)
		c.sent = make([]int32, len(c.Servers))
	})
}

// client returns the connection to a server that a program names.
func (c *Comm) client(server int) (rpc.ParameterServerClient, string, error) {
	where := serverName(server)
	if server < 0 || server >= len(c.Servers) {
		return nil, where, &fault.Fault{Kind: fault.InvalidProgram, Where: where, Got: fmt.Sprintf("server %d", server), Want: fmt.Sprintf("0 to %d", len(c.Servers)-1)}
	}
	return c.Servers[server], where, nil
}

func serverName(server int) string { return fmt.Sprintf("pserver %d", server) }

// Send starts sending a contribution.
func (c *Comm) Send(ctx context.Context, m ops.Message) error {
	c.init()
	client, where, err := c.client(m.Server)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.sent[m.Server]++
	c.mu.Unlock()
	round := c.step.Round
	c.sends.start(ctx, c.slots, c.Deadline+slack, func(ctx context.Context) error {
		return wire.Retry(ctx, func(attempt uint32) error {
			return wire.FromStatus(where, send(ctx, client, &rpc.VariableChunk{Id: c.Identity.Of(c.Rank, round, attempt), Name: m.Name}, m.Value))
		})
	})
	return nil
}

// send makes one attempt. It returns only when the call has ended, so that t may be written afterwards.
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
	sent, err := c.endSends()
	if err != nil || !c.Sync {
		return err
	}
	return c.everyServer(ctx, func(ctx context.Context, server int, attempt uint32) error {
		_, err := c.Servers[server].SendBarrier(ctx, &rpc.BarrierRequest{Id: c.Identity.Of(c.Rank, c.step.Round, attempt), Rows: c.step.Rows, Variables: sent[server], Records: c.records})
		return err
	})
}

// endSends waits for all sends and returns how many went to each server since the last call.
func (c *Comm) endSends() ([]int32, error) {
	err := c.sends.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := c.sent
	c.sent = make([]int32, len(c.Servers))
	return sent, err
}

// everyServer makes one call to each server, at the same time.
func (c *Comm) everyServer(ctx context.Context, call func(ctx context.Context, server int, attempt uint32) error) error {
	var group calls
	for server := range c.Servers {
		group.start(ctx, c.slots, c.Deadline+slack, func(ctx context.Context) error {
			return wire.Retry(ctx, func(attempt uint32) error { return wire.FromStatus(serverName(server), call(ctx, server, attempt)) })
		})
	}
	return group.end()
}

// Recv starts receiving a variable.
func (c *Comm) Recv(ctx context.Context, m ops.Message) error {
	c.init()
	if !c.Sync {
		// A trainer reads what it has written: its contributions are in the queues before it asks.
		if _, err := c.endSends(); err != nil {
			return err
		}
	}
	client, where, err := c.client(m.Server)
	if err != nil {
		return err
	}
	round := c.step.Round + 1
	if c.want == initial {
		round = 0
	}
	final, anyVersion := c.want == saved, c.want == latest || c.want == initial && !c.Sync
	c.recvs.start(ctx, c.slots, c.Deadline+slack, func(ctx context.Context) error {
		return wire.Retry(ctx, func(attempt uint32) error {
			request := &rpc.GetRequest{Id: c.Identity.Of(c.Rank, round, attempt), Name: m.Name, Final: final, AnyVersion: anyVersion}
			return wire.FromStatus(where, receive(ctx, client, request, m.Value))
		})
	})
	return nil
}

// receive makes one attempt. t is complete only if it succeeds.
func receive(ctx context.Context, client rpc.ParameterServerClient, request *rpc.GetRequest, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.GetVariable(ctx, request)
	if err != nil {
		return err
	}
	_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return t, nil })
	return err
}

// FetchBarrier waits until everything is received.
func (c *Comm) FetchBarrier(context.Context) error { return c.recvs.end() }

// Complete tells every server that this trainer contributes to no later round.
func (c *Comm) Complete(ctx context.Context) error {
	c.init()
	return c.everyServer(ctx, func(ctx context.Context, server int, attempt uint32) error {
		_, err := c.Servers[server].Complete(ctx, &rpc.CompleteRequest{Id: c.Identity.Of(c.Rank, c.step.Round, attempt)})
		return err
	})
}

// Drain ends the calls that a failed step left behind, so that their tensors may be used again.
func (c *Comm) Drain() {
	c.sends.abort()
	c.recvs.abort()
}
