package trainer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Comm carries out the send, recv and barrier ops of a trainer program. Calls that move tensors run on goroutines of their own, so that they overlap
// with the backward pass; at most maxCalls are under way at once. One step at a time uses it, whose ops may run at the same time.
//
// The calls of a sync step, in their order:
//
//	BeginStep -> Send... -> SendBarrier -> Recv... -> FetchBarrier
//	             |          |              |
//	             |          |              the parameters of the next round
//	             |          from here on the step is declared: it may commit, whatever becomes of this trainer
//	             gradients, as they are computed
//
// In async mode there is no SendBarrier. FetchBarrier declares the step to server 0, whose answer comes while the next step computes: the first Send of
// that step waits for it. Where not every step pushes or pulls, rhythm says which do: what the ledger gets is a push. Where trainers may be so far ahead of
// others and no further, FetchBarrier asks server 0 between a push and the pull; see pace.
type Comm struct {
	Rank     id.Rank
	Sync     bool
	Deadline time.Duration // of each call to a server
	Servers  []rpc.ParameterServerClient
	Data     *dataplane.Dialer // nil: steps go over gRPC
	Times    *timing.Recorder  // notes the phases of a step; may be nil
	Log      *slog.Logger      // only with Data
	// CheckFinite says that a round fails whose mean is no number because all weights in it are 0.
	CheckFinite bool
	Now         *ops.Step // that the executor runs; nil: what BeginStep has said
	Leader      *Leader   // where those connect whom this trainer leads; nil: it leads nobody

	identity  wire.Identity // of the generation
	caller    caller
	first     id.Round // round that the parameters are received of before the first step
	step      ops.Step
	version   version
	pass      int32
	records   []*rpc.RecordRange // of the step
	sends     callGroup
	recvs     callGroup
	rhythm    rhythm     // async: which steps push and pull
	ledger    ledgerStep // async: the last push that was declared
	pace      pace       // async: how far the trainer may be ahead of others
	verdicts  verdicts   // sync: which contributions count, in a job with backup trainers
	news      news       // sync: what the coordinator tells while a step computes
	totals               // sync: shared in the middle of the step
	links     links      // of a led trainer: the only one is to its leader
	exchanges exchanges  // of links
	groupRole
	ahead *ahead        // sync: asks for rows of tables before they are wanted; may be nil
	probe probe         // for who waits for the group
	slots chan struct{} // holds one token for each call under way
	once  sync.Once
	torn  atomic.Bool // something of parameters has arrived since a step, or the start, has ended well: they may be of two rounds

	mu         sync.Mutex
	sent       []int32 // variables sent in this step, by server
	superseded error   // why the generation has ended since this step was declared; nil while it has not
}

// maxCalls bounds the tensor calls that one trainer has under way.
const maxCalls = 16

var _ ops.Comm = (*Comm)(nil)

// version says which value of a variable Recv asks for.
type version int

const (
	atBeginning version = iota // before the first round of the generation
	afterStep                  // sync: after this round; async: with all of this trainer's own contributions
	asItIs                     // whatever the server has now
	final                      // after every other trainer has completed
)

// BeginGeneration begins a generation, whose parameters are received as they are at round first. Nothing may be under way.
func (c *Comm) BeginGeneration(identity wire.Identity, first id.Round) {
	c.init()
	c.identity, c.first, c.version = identity, first, atBeginning
	c.rhythm.restart()
	c.pace.restart()
	c.probe.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.superseded = nil
}

// BeginStep says which step the following calls belong to, and which records of which pass it trains.
func (c *Comm) BeginStep(step ops.Step, pass int, records []ranges.Range) {
	c.init()
	c.step, c.version, c.pass, c.records = step, afterStep, int32(pass), wire.Ranges(records)
	if !c.Sync {
		c.rhythm.begin(step.Rows, c.pass, records)
	}
	c.known = nil
	for _, l := range c.links {
		if l != nil {
			l.begin()
		}
	}
	if c.group != nil {
		c.group.begin()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sent)
	c.superseded = nil
}

// Receive makes the following Recv calls ask for a version, until the next BeginStep.
func (c *Comm) Receive(v version) { c.version = v }

// serveBy makes the servers of another placement those of the next generation. Nothing may be under way.
func serveBy(c *Comm, servers []rpc.ParameterServerClient) {
	c.init()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Servers, c.sent = servers, make([]int32, len(servers))
}

func (c *Comm) init() {
	c.once.Do(func() {
		c.sends.failed = c.exchanges.end
		c.totals.comm = c
		c.slots = make(chan struct{}, maxCalls)
		c.sent = make([]int32, len(c.Servers))
	})
}

// Send starts sending a contribution. In async mode a step that does not push keeps it. Else Send first waits until the push before is in the ledger.
func (c *Comm) Send(ctx context.Context, m ops.Message) error {
	c.init()
	if err := checkServer(m.Server, len(c.Servers)); err != nil {
		return err
	}
	m, now, err := c.rhythm.add(m)
	if err != nil || !now {
		return err
	}
	return c.post(ctx, m)
}

// post is Send for what the step sends.
func (c *Comm) post(ctx context.Context, m ops.Message) error {
	if err := c.ledger.await(); err != nil {
		return err
	}
	if c.group != nil {
		return c.group.add(m.Name, m.Value)
	}
	l := c.links.to(m.Server)
	to := m.Server
	if l != nil {
		to = l.server
	}
	c.mu.Lock()
	c.sent[to]++
	c.mu.Unlock()
	if l != nil {
		return c.write(ctx, l, m.Name, m.Value)
	}
	if m.Rows {
		var err error
		if m.Value, err = compress.RowsInUse(m.Value); err != nil {
			return err
		}
	}
	identity, round := c.identity, c.round()
	c.sends.start(ctx, c.slots, func(ctx context.Context) error {
		return c.call(ctx, m.Server, "taking "+m.Name, func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error {
			return send(ctx, to, &rpc.VariableChunk{Id: identity.Of(c.Rank, round, retry), Name: m.Name}, m.Value)
		})
	})
	return nil
}

// write gives a slice to a link, which sends it while the step goes on when there is enough.
func (c *Comm) write(ctx context.Context, l *link, name string, value *tensor.Tensor) error {
	early, err := l.add(name, value)
	if early {
		bound := c.exchanges.context(ctx) // to which the connection is bound already
		c.sends.start(ctx, c.slots, func(context.Context) error { l.writeEarly(bound); return nil })
	}
	return err
}

// SendBarrier waits for all sends of the step and then, in sync mode, declares the contribution complete at every server. From then on the end of the
// generation does not fail the step, because it may have committed. Superseded reports the end.
func (c *Comm) SendBarrier(ctx context.Context) error {
	c.init()
	c.Times.Enter(timing.Send)
	defer c.Times.Enter(timing.Await)
	c.verdicts.computed()
	c.news.computed()
	if err := c.sends.end(); err != nil || !c.Sync {
		return err
	}
	c.ahead.settle()
	if c.Now != nil {
		c.step.Weight, c.step.Void, c.step.Hour = c.Now.Weight, c.Now.Void, c.Now.Hour
	}
	if c.group != nil {
		err := c.group.gather(ctx)
		if err = moreTelling(err, c.sends.end()); err != nil {
			return err
		}
	}
	if err := c.links.contribute(ctx); err != nil {
		if c.links.mayCount() {
			return c.noteSuperseded(ctx, err)
		}
		return err
	}
	if c.verdicts.on {
		return c.noteSuperseded(ctx, c.verdicts.barrier(ctx, c))
	}
	defer c.ahead.ask(ctx, c, c.round()+1)
	if c.links != nil && !slices.Contains(c.links, nil) {
		c.links.declare(ctx)
		return nil
	}
	return c.noteSuperseded(ctx, forEach(ctx, len(c.Servers), c.slots, func(ctx context.Context, server int) error {
		if l := c.links.to(server); l != nil {
			syncStep{l}.declare(ctx)
			return nil
		}
		return c.declare(ctx, server, c.identity, c.round(), c.declaration(server))
	}))
}

// Recv starts receiving a variable.
func (c *Comm) Recv(ctx context.Context, m ops.Message) error {
	c.init()
	if !c.Sync {
		// A trainer reads what it has written: its contributions are in the queues before it asks.
		c.Times.Enter(timing.Send)
		if err := c.sends.end(); err != nil {
			return err
		}
		c.Times.Enter(timing.Await)
	}
	if err := checkServer(m.Server, len(c.Servers)); err != nil {
		return err
	}
	round := c.round() + 1
	if c.version == atBeginning {
		round = c.first
	}
	last, now := c.version == final, c.version == asItIs || c.version == atBeginning && !c.Sync
	if c.Superseded() != nil {
		return nil
	}
	if !c.Sync && c.version == afterStep {
		linked := c.links.to(m.Server) != nil
		if !linked {
			if err := c.rhythm.note(m); err != nil {
				return err
			}
		}
		if !c.rhythm.receives(m.Name) {
			if ask, ok := c.rhythm.confirms(m.Server); ok && !linked && !c.pace.bounded {
				startReceiving(ctx, c, ask, round, last, now)
			}
			return nil
		}
		if c.pace.asks(&c.rhythm) && !linked {
			c.pace.defers(m)
			return nil
		}
	}
	if c.version == atBeginning && c.Sync {
		c.probe.note(m)
	}
	if l := c.links.to(m.Server); l != nil && (c.version == afterStep || c.version == atBeginning && l.receivesEachStep(m.Name)) {
		if c.group != nil && c.version == afterStep {
			if err := c.group.expect(m.Name, m.Value); err != nil {
				return err
			}
		}
		return l.expect(m.Name, m.Value)
	}
	startReceiving(ctx, c, m, round, last, now)
	return nil
}

// startReceiving starts receiving a variable by a call. last and now say which version, as GetRequest has them.
func startReceiving(ctx context.Context, c *Comm, m ops.Message, round id.Round, last, now bool) {
	identity := c.identity
	c.recvs.start(ctx, c.slots, func(ctx context.Context) error {
		return c.call(ctx, m.Server, fmt.Sprintf("%s of round %d", m.Name, round),
			func(ctx context.Context, from rpc.ParameterServerClient, retry id.Retry) error {
				return receive(ctx, from, &rpc.GetRequest{Id: identity.Of(c.Rank, round, retry), Name: m.Name, Final: last, AnyVersion: now, Zeros: last},
					func() *tensor.Tensor {
						c.Times.Enter(timing.Receive)
						if c.torn.Store(true); last { // of a table that grows, most of it may be zeros that take no memory
							tensor.SmallPages(m.Value)
						}
						return m.Value
					})
			})
	})
}

// FetchBarrier waits until everything is received. In async mode it starts entering a push in the ledger: everything of it has been applied.
func (c *Comm) FetchBarrier(ctx context.Context) error {
	if c.version == afterStep && c.pace.asks(&c.rhythm) {
		return c.pace.barrier(ctx, c)
	}
	err := c.recvs.end()
	if c.links != nil && c.Superseded() == nil {
		err = moreTelling(err, c.fetch(ctx))
	}
	if err == nil && c.group != nil && c.version == afterStep && c.Superseded() == nil {
		err = c.group.publish()
	}
	if err == nil && c.Superseded() == nil {
		c.Times.Enter(timing.Other)
	}
	if err := c.noteSuperseded(ctx, err); err != nil || c.Sync || c.version != afterStep {
		return err
	}
	if !c.rhythm.pushes || len(c.records) == 0 {
		return nil
	}
	if err := c.sends.end(); err != nil {
		return err
	}
	c.ledger.declare(ctx, c)
	return nil
}

// fetch receives over the connections what the step reads.
func (c *Comm) fetch(ctx context.Context) error {
	switch {
	case c.version == atBeginning && c.verdicts.on:
		return beginTogether(ctx, c)
	case c.version == atBeginning:
		return c.links.begin(ctx)
	case c.version != afterStep:
		return nil // over calls
	case c.Sync:
		return c.links.fetch(ctx)
	case !c.rhythm.pushes && !c.rhythm.pulls:
		return nil
	}
	if err := moreTelling(c.sends.end(), c.ledger.await()); err != nil { // where nothing was sent or received before
		return err
	}
	return c.links.update(ctx, c.rhythm.pulls)
}

// Complete tells every server that this trainer contributes to no later round.
func (c *Comm) Complete(ctx context.Context) error {
	c.init()
	identity := c.identity
	err := forEach(ctx, len(c.Servers), c.slots, func(ctx context.Context, server int) error {
		return c.call(ctx, server, "leave", func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error {
			_, err := to.Complete(ctx, &rpc.CompleteRequest{Id: identity.Of(c.Rank, c.round(), retry)}, grpc.WaitForReady(false))
			return err
		})
	})
	if err == nil && c.group != nil {
		c.group.completed = true
	}
	return err
}

// Superseded returns how the trainer knows that the generation ended after the last step was declared, or, with backup trainers, that others have gone on after
// the step, which counts (fault.Stale); nil: the step was committed, and everything of it received.
func (c *Comm) Superseded() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.superseded
}

// noteSuperseded notes that the generation has ended, or that others have gone on, where err says so of a sync step that has been declared, or that counts. It has
// ended for a trainer whose lease is lost, too. What is still to be received of the step then stays as it was: its trainer receives everything anew before it goes on.
func (c *Comm) noteSuperseded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, fault.Fenced) {
		err = fault.E(fault.Superseded, fault.Cause(cause))
	}
	if !c.Sync || c.version != afterStep || !errors.Is(err, fault.Superseded) && !(errors.Is(err, fault.Stale) && c.verdicts.counts(c)) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.superseded = err
	return nil
}

// Abort ends the calls that a failed step left behind, so that their tensors may be used again, and the connections of the generation.
func (c *Comm) Abort() {
	c.verdicts.forget()
	c.exchanges.end()
	for _, group := range []*callGroup{&c.sends, &c.recvs, &c.ledger.call} {
		group.abort()
	}
	if c.ahead != nil {
		c.ahead.calls.abort()
	}
	c.ledger.forget()
	c.links.close()
	c.links = nil
	c.groupRole.leave()
}

// round is the round of the step.
func (c *Comm) round() id.Round { return id.Round(c.step.Round) }

// declaration is the barrier of the step for one server, but for its identity.
func (c *Comm) declaration(server int) *rpc.BarrierRequest {
	if c.group != nil {
		return c.group.declaration(server)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Sync {
		return c.rhythm.declaration(c.sent[server])
	}
	m := &rpc.BarrierRequest{Rows: c.step.Rows, Weight: c.step.Weight, Void: c.step.Void && c.CheckFinite, Variables: c.sent[server], Pass: c.pass, Records: c.records, Hour: c.step.Hour}
	if server == 0 {
		m.Totals = c.known
	}
	if answer := c.verdicts.decided(); answer != nil && server > 0 {
		m.Counted = answer.Declared
	}
	return m
}

// declare sends the barrier of a round to one server. In async mode the next step may have begun.
func (c *Comm) declare(ctx context.Context, server int, identity wire.Identity, round id.Round, barrier *rpc.BarrierRequest) error {
	return c.call(ctx, server, fmt.Sprintf("the declaration of round %d", round),
		func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error {
			barrier.Id = identity.Of(c.Rank, round, retry)
			_, err := to.SendBarrier(ctx, barrier, grpc.WaitForReady(false))
			return err
		})
}

// checkServer refuses the number of a server that does not exist.
func checkServer(server, servers int) error {
	if server < 0 || server >= servers {
		return fault.E(fault.InvalidProgram, fault.At(serverName(server)), fault.Gotf("server %d", server),
			fault.Wantf("0 to %d", servers-1))
	}
	return nil
}

func serverName(server int) string { return fmt.Sprintf("pserver %d", server) }

// call makes one call to a server, and its retries.
func (c *Comm) call(ctx context.Context, server int, what string,
	do func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error) error {
	return c.caller.within(ctx, c.Deadline, callTarget{serverName(server), what}, func(ctx context.Context, retry id.Retry) error {
		return do(ctx, c.Servers[server], retry)
	})
}

// send tries once to send a variable. It returns only when the call has ended, so that t may be written afterwards.
func send(ctx context.Context, to rpc.ParameterServerClient, header *rpc.VariableChunk, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := to.SendVariable(ctx, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	if err := wire.SendVariable(stream, header, t, wire.Keep); err != nil {
		if _, answer := stream.CloseAndRecv(); answer != nil {
			return answer // the server ended the call and says why
		}
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// receive tries once to receive a variable, into the tensor that arrives returns when the first of it is here. It is complete only if receive succeeds.
func receive(ctx context.Context, from rpc.ParameterServerClient, request *rpc.GetRequest, arrives func() *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := from.GetVariable(ctx, request, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return arrives(), nil })
	return err
}
