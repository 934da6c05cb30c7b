package remote

import (
	"context"

	"github.com/edl-go/edl/proto/rpc"
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
