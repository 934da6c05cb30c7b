package trainer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A grouping is the group of a trainer in one generation, as the coordinator has fixed it. The zero grouping is no group.
type grouping struct {
	ranks   []id.Rank // in order; the first leads
	address string    // of the leader
}

func groupOf(in *generation) (g grouping) {
	for _, rank := range in.Group {
		g.ranks = append(g.ranks, id.Rank(rank))
	}
	g.address = in.LeaderAddress
	return g
}

// connect opens the connections to all servers, unless another trainer of the host contributes for this one. p is the trainer program.
func (c *Comm) connect(ctx context.Context, p *program.Program, g grouping) (err error) {
	if len(g.ranks) > 0 && (c.Leader == nil || c.Data == nil || !c.Sync || !slices.Contains(g.ranks, c.Rank)) {
		return fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("the group %v for trainer %d", g.ranks, c.Rank),
			fault.Want("one that it can be in"))
	}
	if len(g.ranks) == 0 || g.ranks[0] == c.Rank {
		c.links, err = openLinks(ctx, c, p)
	}
	return err
}

// join begins to lead the group of a generation, or opens the connection to its leader. The parameters that the generation begins with are received.
func (c *Comm) join(ctx context.Context, p *program.Program, g grouping) error {
	switch {
	case len(g.ranks) == 0:
		return nil
	case g.ranks[0] == c.Rank:
		return c.lead(p, g.ranks)
	}
	c.Leader.begin(c.identity.Generation, nil)
	return c.beLed(ctx, p, g)
}

// beLed opens the connection to the leader of the group.
func (c *Comm) beLed(ctx context.Context, p *program.Program, g grouping) error {
	traffic, err := comm.TrafficOf(p, len(c.Servers))
	if err != nil {
		return err
	}
	all, err := joined(traffic)
	if err != nil {
		return err
	}
	if c.toLeader, err = wire.Dial(g.address); err != nil {
		return err
	}
	l := newLink(c, 0, all)
	l.peer, l.name, l.toLeader = rpc.NewParameterServerClient(c.toLeader), trainerName(g.ranks[0]), true
	if err := l.exchange(ctx, "a data connection", func(*link) error { return nil }); err != nil {
		var f *fault.Fault
		if errors.As(err, &f) && f.Kind == fault.Unsupported && f.Hint == "" {
			f.Hint = "run without merge_hosts"
		}
		return err
	}
	c.links = links{l}
	return nil
}

// leaveGroup ends what the trainer has of a group.
func (c *Comm) leaveGroup() {
	if c.group != nil {
		c.group.end()
		c.group = nil
	}
	if c.toLeader != nil {
		_ = c.toLeader.Close()
		c.toLeader = nil
	}
}

// A probe is a small variable of a server. Who waits for others of the group asks that server for it, to hear when the generation ends.
type probe struct {
	server int
	name   string
	like   *tensor.Tensor // nil: there is none yet
}

// noteProbe keeps the smallest variable that is received.
func (c *Comm) noteProbe(m ops.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe.like == nil || m.Value.Bytes() < c.probe.like.Bytes() {
		c.probe = probe{m.Server, m.Name, m.Value}
	}
}

// askAfter is how long a trainer waits for another one of its group before it asks a server whether the generation lasts.
const askAfter = 250 * time.Millisecond

// whileGenerationLasts runs do, which waits for another trainer of the group. When do takes long, a server is asked for the parameters of the next
// round, as a trainer without a group would: the server answers when the round is applied, or when the generation has ended. In the second case the
// context of do ends, and the error is what the server has said.
func (c *Comm) whileGenerationLasts(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Add(1)
	timer := time.AfterFunc(askAfter, func() {
		defer asking.Done()
		c.ask(ctx, cancel)
	})
	err := do(ctx)
	if timer.Stop() {
		asking.Done()
	}
	why := context.Cause(ctx)
	cancel(nil)
	asking.Wait()
	if err != nil && errors.Is(why, fault.Superseded) {
		return why
	}
	return err
}

// ask asks a server for the parameters of the next round, again and again until ctx ends, and ends ctx when the generation has ended.
func (c *Comm) ask(ctx context.Context, end context.CancelCauseFunc) {
	c.mu.Lock()
	p := c.probe
	c.mu.Unlock()
	if p.like == nil {
		return
	}
	version := c.first
	if c.version == afterStep {
		version = c.round() + 1
	}
	value, err := tensor.New(p.like.DType(), p.like.Dims()...)
	for retry := id.Retry(0); err == nil; retry++ {
		request := &rpc.GetRequest{Id: c.message(c.identity, version, retry), Name: p.name}
		answer := receive(ctx, c.Servers[p.server], request, func() *tensor.Tensor { return value })
		if answer = wire.FromStatus(serverName(p.server), answer); errors.Is(answer, fault.Superseded) {
			end(answer)
			return
		}
		timer := time.NewTimer(askAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
