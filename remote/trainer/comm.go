package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/grpc"
)

// Comm is the trainer's side of the wire: it carries out send, recv and the barriers of a trainer program. Calls that move tensors run on goroutines
// of their own, so that they overlap with the backward pass; at most maxCalls are under way at once. It is used by one step at a time, whose
// ops may run at the same time.
type Comm struct {
	Rank     uint32
	Sync     bool
	Deadline time.Duration // of a round: every wait ends soon after it
	Servers  []rpc.ParameterServerClient

	identity wire.Identity // of the generation
	ask      asking
	first    uint64 // round that the parameters are received of before the first step
	step     ops.Step
	want     version
	pass     int32
	records  []*rpc.RecordRange // of the step
	sends    calls
	recvs    calls
	entries  calls // in the ledger, async mode
	slots    chan struct{}
	once     sync.Once

	mu   sync.Mutex
	sent []int32 // variables sent in this step, by server
	over error   // why the generation has ended since the contribution of this step was declared; nil while it has not
}

// maxCalls bounds the tensor calls that one trainer has under way.
const maxCalls = 16

// slack is how much longer than a server a trainer waits for a round, so that it is the server which gives up first, and says who is missing.
const slack = 2 * time.Second

var _ ops.Comm = (*Comm)(nil)

// Enter begins a generation, whose parameters are received as they are at round first. Nothing may be under way.
func (c *Comm) Enter(identity wire.Identity, first uint64) {
	c.init()
	c.identity, c.first, c.want = identity, first, initial
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = nil
}

// Begin says which step the following calls belong to, and which records of which pass it trains.
func (c *Comm) Begin(step ops.Step, pass int, records []dataset.Range) {
	c.init()
	c.step, c.want, c.pass = step, afterOwn, int32(pass)
	c.records = make([]*rpc.RecordRange, len(records))
	for i, r := range records {
		c.records[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sent)
	c.over = nil
}

func (c *Comm) init() {
	c.once.Do(func() {
		c.slots = make(chan struct{}, maxCalls)
		c.sent = make([]int32, len(c.Servers))
	})
}

// check refuses a server that a program names and nobody has.
func (c *Comm) check(server int) error {
	if server < 0 || server >= len(c.Servers) {
		return fault.E(fault.InvalidProgram, fault.At(serverName(server)), fault.Gotf("server %d", server),
			fault.Wantf("0 to %d", len(c.Servers)-1))
	}
	return nil
}

func serverName(server int) string { return fmt.Sprintf("pserver %d", server) }

// call makes the attempts of one call to a server, under one identity.
func (c *Comm) call(ctx context.Context, server int, what string,
	f func(ctx context.Context, to rpc.ParameterServerClient, attempt uint32) error) error {
	return c.ask.within(ctx, c.Deadline+slack, question{serverName(server), what}, func(ctx context.Context, attempt uint32) error {
		return f(ctx, c.Servers[server], attempt)
	})
}

// orOver notes that the generation has ended, where err says so of a sync step that has been declared. What is still to be received of the step then
// stays as it was: its trainer receives everything anew in the next generation.
func (c *Comm) orOver(err error) error {
	if !c.Sync || c.want != afterOwn || !errors.Is(err, fault.Superseded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = err
	return nil
}

// Over returns how it is known that the generation has ended in which the step that has just ended was declared; nil: the step was committed.
func (c *Comm) Over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// everyServer makes one call to each server, at the same time.
func (c *Comm) everyServer(ctx context.Context, call func(ctx context.Context, server int) error) error {
	var group calls
	for server := range c.Servers {
		group.start(ctx, c.slots, func(ctx context.Context) error { return call(ctx, server) })
	}
	return group.end()
}

// Drain ends the calls that a failed step left behind, so that their tensors may be used again.
func (c *Comm) Drain() {
	for _, group := range []*calls{&c.sends, &c.recvs, &c.entries} {
		group.abort()
	}
}

// trained returns the records of the step, for a message about it.
func (c *Comm) trained() []*rpc.RecordRange { return slices.Clone(c.records) }

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

// send makes one attempt to send a variable. It returns only when the call has ended, so that t may be written afterwards.
func send(ctx context.Context, to rpc.ParameterServerClient, header *rpc.VariableChunk, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := to.SendVariable(ctx, grpc.WaitForReady(false))
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

// receive makes one attempt to receive a variable. t is complete only if it succeeds.
func receive(ctx context.Context, from rpc.ParameterServerClient, request *rpc.GetRequest, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := from.GetVariable(ctx, request, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return t, nil })
	return err
}

// calls are the calls of one kind that a step has under way. The first that fails ends the others. It is safe for concurrent use.
type calls struct {
	mu      sync.Mutex
	ended   sync.Cond // L is mu
	pending int
	ctx     context.Context // of all calls since the last end, nil when there is none
	cancel  context.CancelFunc
	err     error
}

// start runs f on a goroutine of its own as soon as one of slots is free. The goroutine ends soon after ctx.
func (c *calls) start(ctx context.Context, slots chan struct{}, f func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ended.L = &c.mu
		c.ctx, c.cancel = context.WithCancel(ctx)
	}
	c.pending++
	go c.run(c.ctx, slots, f)
}

func (c *calls) run(ctx context.Context, slots chan struct{}, f func(ctx context.Context) error) {
	var err error
	select {
	case slots <- struct{}{}:
		err = f(ctx)
		<-slots
	case <-ctx.Done():
		err = fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = worse(c.err, err)
		c.cancel()
	}
	if c.pending--; c.pending == 0 {
		c.ended.Broadcast()
	}
}

// end waits for all calls and returns their first error.
func (c *calls) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending > 0 {
		c.ended.Wait()
	}
	err := c.err
	if c.ctx != nil {
		c.cancel()
	}
	c.ctx, c.cancel, c.err = nil, nil, nil
	return err
}

// abort ends all calls, and waits until they no longer touch their tensors.
func (c *calls) abort() {
	c.mu.Lock()
	if c.ctx != nil {
		c.cancel()
	}
	c.mu.Unlock()
	_ = c.end()
}

// worse keeps the error that tells more: a call that was merely given up because another failed tells least.
func worse(a, b error) error {
	if a == nil || errors.Is(a, fault.Canceled) && !errors.Is(b, fault.Canceled) {
		return b
	}
	return a
}
