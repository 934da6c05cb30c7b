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
