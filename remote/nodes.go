package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
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

// watchedNodes tells the jobs of a listener which nodes there are and what they offer. A node that does not answer, or that is of another protocol, is none.
type watchedNodes struct {
	listener *Listener
	side     *wire.Side
	log      *slog.Logger
	offers   map[cluster.Node]schedule.Resources
	silent   map[cluster.Node]bool
}

func newWatchedNodes(l *Listener, side *wire.Side, log *slog.Logger) *watchedNodes {
	return &watchedNodes{listener: l, side: side, log: log, offers: map[cluster.Node]schedule.Resources{}, silent: map[cluster.Node]bool{}}
}

// watch looks again and again until ctx ends.
func (w *watchedNodes) watch(ctx context.Context) {
	for {
		w.look(ctx)
		timer := time.NewTimer(nodeLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look asks the nodes that have not said yet what they offer, all at once: those that do not answer take offerTime together.
func (w *watchedNodes) look(ctx context.Context) {
	list, err := w.listener.nodes.Nodes(ctx)
	if err != nil {
		return
	}
	has, wrong := make([]schedule.Resources, len(list)), make([]error, len(list))
	var group sync.WaitGroup
	for i, n := range list {
		offer, ok := w.offers[n]
		if has[i] = offer; !ok {
			group.Go(func() { has[i], wrong[i] = offerOf(ctx, n, w.side) })
		}
	}
	group.Wait()
	known, nodes := map[cluster.Node]schedule.Resources{}, []schedule.Node(nil)
	for i, n := range list {
		if wrong[i] != nil {
			if !w.silent[n] && ctx.Err() == nil {
				w.log.Warn("a node does not say what it offers, and gets no roles", "node", n.ID, "address", n.Address, "error", wrong[i])
			}
			w.silent[n] = true
			continue
		}
		delete(w.silent, n)
		known[n] = has[i]
		nodes = append(nodes, schedule.Node{Name: n.ID, Has: has[i]})
	}
	w.offers = known
	if err := listen.SetNodes(w.listener.manager, nodes); err != nil {
		w.log.Warn("the nodes of the cluster are not known", "error", err)
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
	if err == nil {
		err = wire.SameProtocol("node "+n.ID, d.Protocol, d.Build, "start the listeners of all nodes from one build")
	}
	return schedule.Resources{Cores: d.GetOffers().GetMillicores(), Memory: d.GetOffers().GetMemory()}, wire.FromStatus("node "+n.ID, err)
}

// spread lets roles of jobs start on the nodes of the cluster. With a data folder they outlive this listener.
func (l *Listener) spread(config *listen.Config, side *wire.Side) error {
	config.Spread = true
	if l.data == nil {
		config.Launcher = &launch.Nodes{Directory: uncordoned{l}, Side: side}
		return nil
	}
	kept, err := launch.NewKeptNodes(l.nodes, uncordoned{l}, side, filepath.Join(l.data.Dir(), "nodes"), config.Log)
	if err == nil {
		config.Launcher, config.Kept = kept, &listen.Keeping{Launcher: kept, Keeper: "nodes"} // each place of a role names the keeper of its node
	}
	return err
}

// keeperFor answers other listeners for the keeper of this node. Roles of a listener without one end with it.
func (l *Listener) keeperFor(local hosted) rpc.KeeperServer {
	if l.keeper != nil {
		return &launch.NodeKeeper{Keeper: l.keeper.client, ID: l.keeper.about.Id, Change: local.change, Binary: l.binary}
	}
	l.hosts = launch.NewKeeper(local, &rpc.KeeperState{Id: rand.Text()})
	return launch.ForNodes(l.hosts)
}

// register makes this listener a node of the cluster. A listener that was killed on another port may hold the name until its lease has ended.
func (l *Listener) register(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, lastLeases)
	defer cancel()
	for {
		_, err := l.nodes.RegisterNode(ctx, id, l.address)
		if !errors.Is(err, fault.Fenced) || !sleep(ctx, dialPause) {
			return err
		}
	}
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
