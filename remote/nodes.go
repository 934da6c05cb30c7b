package remote

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/wire"
)

// Nodes returns what the machines that run roles of a listener have, and what jobs take of them.
func Nodes(ctx context.Context, c *Client) ([]*rpc.NodeStatus, error) {
	r, err := c.service.Nodes(ctx, &rpc.NodesRequest{})
	return r.GetNodes(), c.at(err)
}

// Cordon lets nothing start on a node of a listener, and Uncordon lets roles start there again. What runs there goes on. The listener remembers it. Both return what
// Nodes returns.
func Cordon(ctx context.Context, c *Client, node string) ([]*rpc.NodeStatus, error) {
	return cordon(ctx, c, &rpc.CordonNodeRequest{Node: node})
}

// Uncordon is the inverse of Cordon.
func Uncordon(ctx context.Context, c *Client, node string) ([]*rpc.NodeStatus, error) {
	return cordon(ctx, c, &rpc.CordonNodeRequest{Node: node, Uncordon: true})
}

func cordon(ctx context.Context, c *Client, m *rpc.CordonNodeRequest) ([]*rpc.NodeStatus, error) {
	r, err := c.service.CordonNode(ctx, m)
	return r.GetNodes(), c.at(err)
}

// How often a listener looks which nodes there are, and how long one may take to say what it offers.
const (
	nodeLook  = 2 * time.Second
	offerTime = 2 * time.Second
)

// watchNodes tells the jobs of a listener which nodes there are and what they offer, until ctx ends. A node that does not answer is none.
func watchNodes(ctx context.Context, l *Listener, side *wire.Side, log *slog.Logger) {
	offers := map[cluster.Node]schedule.Resources{}
	silent := map[cluster.Node]bool{}
	for {
		list, err := l.nodes.Nodes(ctx)
		if err == nil {
			known, nodes := map[cluster.Node]schedule.Resources{}, []schedule.Node(nil)
			for _, n := range list {
				has, ok := offers[n]
				if !ok {
					if has, err = offerOf(ctx, n, side); err != nil {
						if !silent[n] && ctx.Err() == nil {
							log.Warn("a node does not say what it offers, and gets no roles", "node", n.ID, "address", n.Address, "error", err)
						}
						silent[n] = true
						continue
					}
				}
				delete(silent, n)
				known[n] = has
				nodes = append(nodes, schedule.Node{Name: n.ID, Has: has})
			}
			offers = known
			if err := listen.SetNodes(l.manager, nodes); err != nil {
				log.Warn("the nodes of the cluster are not known", "error", err)
			}
		}
		timer := time.NewTimer(nodeLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// offerOf asks a node what it offers.
func offerOf(ctx context.Context, n cluster.Node, side *wire.Side) (schedule.Resources, error) {
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	conn, err := wire.Dial(n.Address, side)
	if err != nil {
		return schedule.Resources{}, err
	}
	defer conn.Close()
	d, err := rpc.NewListenerClient(conn).Describe(ctx, &rpc.DescribeRequest{})
	return schedule.Resources{Cores: d.GetOffers().GetMillicores(), Memory: d.GetOffers().GetMemory()}, wire.FromStatus("node "+n.ID, err)
}

// uncordoned is the nodes of a listener where roles may start: all, if every one is cordoned, for a role of a job that runs.
type uncordoned struct{ listener *Listener }

// Nodes lists them.
func (u uncordoned) Nodes(ctx context.Context) ([]cluster.Node, error) {
	list, err := u.listener.nodes.Nodes(ctx)
	open := slices.DeleteFunc(slices.Clone(list), func(n cluster.Node) bool { return listen.Cordoned(u.listener.manager, n.ID) })
	if len(open) == 0 {
		return list, err
	}
	return open, err
}
