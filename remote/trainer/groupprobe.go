package trainer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A probe is a small variable of a server. Who waits for others of the group asks that server for it, to hear when the generation ends. It is safe for
// concurrent use.
type probe struct {
	mu     sync.Mutex
	server int
	name   string
	like   *tensor.Tensor // nil: there is none yet
	before id.Round       // rounds before it are applied, as far as a server has said
}

// note keeps the smallest variable that is received.
func (p *probe) note(m ops.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.like == nil || m.Value.Bytes() < p.like.Bytes() {
		p.server, p.name, p.like = m.Server, m.Name, m.Value
	}
}

// forget forgets the variable: a generation has ended.
func (p *probe) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.name, p.like, p.before = 0, "", nil, 0
}

// applied reports whether a server has said that a round is applied.
func (p *probe) applied(round id.Round) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return round < p.before
}

// askAfter is how long a trainer waits for another one of its group before it asks a server whether the generation lasts.
const askAfter = 250 * time.Millisecond

// whileGenerationLasts runs do, which waits for another trainer of the group. When do takes long, a server is asked for the parameters of the next
// round, as a trainer without a group would: the server answers when the round is applied, or when the generation has ended. In the second case the
// context of do ends, and the error is what the server has said.
func (p *probe) whileGenerationLasts(ctx context.Context, c *Comm, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Add(1)
	timer := time.AfterFunc(askAfter, func() {
		defer asking.Done()
		p.ask(ctx, c, cancel)
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
func (p *probe) ask(ctx context.Context, c *Comm, end context.CancelCauseFunc) {
	p.mu.Lock()
	server, name, like := p.server, p.name, p.like
	p.mu.Unlock()
	if like == nil {
		return
	}
	version := c.first
	if c.version == afterStep {
		version = c.round() + 1
	}
	value, err := tensor.New(like.DType(), like.Dims()...)
	for retry := id.Retry(0); err == nil; retry++ {
		request := &rpc.GetRequest{Id: c.identity.Of(c.Rank, version, retry), Name: name}
		answer := receive(ctx, c.Servers[server], request, func() *tensor.Tensor { return value })
		switch answer = wire.FromStatus(serverName(server), answer); {
		case errors.Is(answer, fault.Superseded):
			end(answer)
			return
		case answer == nil && c.version == afterStep:
			p.mu.Lock()
			p.before = version
			p.mu.Unlock()
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

// errLeaderLeft says that the leader of a led trainer cannot be reached and that the round is applied. The leader may have completed then: after its last
// round it waits for nobody.
var errLeaderLeft = fault.New(fault.LostMember, "the leader of the group is gone")

// fromServers receives the parameters of the next round from the servers themselves. They are those that the leader had, because no later round begins
// without this trainer.
func (l *link) fromServers(ctx context.Context) error {
	c := l.comm
	c.Log.Info("the leader of the group is gone, the servers are asked for the parameters", "leader", l.name)
	return forEach(ctx, len(l.receive), c.slots, func(ctx context.Context, slice int) error {
		s, to := l.receive[slice], l.targets[slice]
		if to == nil {
			return nil
		}
		value, err := tensor.New(s.DType, s.Dims...)
		if err != nil {
			return err
		}
		b, err := wire.Memory(value)
		if err != nil {
			return err
		}
		err = c.call(ctx, l.homes[slice], s.Name+" of round "+(c.round()+1).String(),
			func(ctx context.Context, from rpc.ParameterServerClient, retry id.Retry) error {
				request := &rpc.GetRequest{Id: c.identity.Of(c.Rank, c.round()+1, retry), Name: s.Name}
				return receive(ctx, from, request, func() *tensor.Tensor { return value })
			})
		copy(to, b)
		return err
	})
}
