package trainer

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
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
func (g grouping) connect(ctx context.Context, c *Comm, p *program.Program) (err error) {
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
func (g grouping) join(ctx context.Context, c *Comm, p *program.Program) error {
	switch {
	case len(g.ranks) == 0:
		return nil
	case g.ranks[0] == c.Rank:
		return lead(c, p, g.ranks)
	}
	c.Leader.end(c.identity.Generation, groupEnded(c.Rank, c.identity.Generation))
	return g.beLed(ctx, c, p)
}

// beLed opens the connection to the leader of the group.
func (g grouping) beLed(ctx context.Context, c *Comm, p *program.Program) error {
	traffic, err := comm.TrafficOf(p, len(c.Servers))
	if err != nil {
		return err
	}
	all, err := joined(traffic)
	if err != nil {
		return err
	}
	if c.toLeader, err = wire.Dial(g.address, c.Leader.side); err != nil {
		return err
	}
	l := newLink(c, 0, all)
	l.peer, l.name, l.toLeader = rpc.NewParameterServerClient(c.toLeader), trainerName(g.ranks[0]), true
	for server, t := range traffic {
		l.homes = append(l.homes, slices.Repeat([]int{server}, len(t.Receive))...)
	}
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

// groupRole is what a trainer is in a group in one generation: the leader, led, or neither, which is the zero value.
type groupRole struct {
	group    *group           // that this trainer leads; nil: none
	toLeader *grpc.ClientConn // to the leader of this trainer; nil: nobody leads it
}

// leave ends what the trainer has of a group.
func (r *groupRole) leave() {
	if r.group != nil {
		r.group.end()
		r.group = nil
	}
	if r.toLeader != nil {
		_ = r.toLeader.Close()
		r.toLeader = nil
	}
}
