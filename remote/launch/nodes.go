package launch

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// Nodes starts roles on the listeners of a cluster, in turns. A node that does not answer is passed over.
//
// The stream of Listener.StartRole carries the RoleSpec in pieces and then an empty piece. It stays open as long as the role is wanted: when the
// client ends its side the role is asked to end, a further piece kills it, and when the stream breaks the role is made to end.
type Nodes struct {
	Directory interface {
		Nodes(ctx context.Context) ([]cluster.Node, error)
	}
	Dial func(address string) (*grpc.ClientConn, error) // nil: wire.Dial

	next atomic.Uint64
}

var _ Launcher = (*Nodes)(nil)

// Start finds a node that starts the role.
func (n *Nodes) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (Handle, error) {
	if size := proto.Size(spec); size > MaxSpec {
		return nil, tooLarge(nameOf(spec), int64(size))
	}
	nodes, err := n.Directory.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fault.E(fault.Unavailable, fault.At(nameOf(spec)), fault.Got("no node to run it on"),
			fault.Hint("start listeners that join the cluster"))
	}
	var failures []error
	turn := n.next.Add(1) - 1
	for i := range uint64(len(nodes)) {
		h, err := n.startOn(ctx, nodes[(turn+i)%uint64(len(nodes))], spec, log)
		if err == nil {
			return h, nil
		}
		if ctx.Err() != nil || !errors.Is(err, fault.Unavailable) {
			return nil, err
		}
		failures = append(failures, err)
	}
	return nil, fault.E(fault.Unavailable, fault.At(nameOf(spec)), fault.Gotf("%d nodes that do not answer", len(nodes)),
		fault.Cause(errors.Join(failures...)))
}

// startOn starts the role on one node. It returns when the node has said that the role runs.
func (n *Nodes) startOn(ctx context.Context, node cluster.Node, spec *job.RoleSpec, log io.Writer) (Handle, error) {
	dial := n.Dial
	if dial == nil {
		dial = wire.Dial
	}
	conn, err := dial(node.Address)
	if err != nil {
		return nil, err
	}
	// The stream outlives ctx, whose end asks the role to end.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &remoteRole{where: nameOf(spec) + " on node " + node.ID, node: node.ID, cancel: cancel, out: newLines(log),
		started: make(chan struct{}), done: make(chan struct{})}
	go h.run(streamCtx, conn, spec)
	if err := h.await(ctx); err != nil {
		return nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { h.Stop(stopGrace) })
	context.AfterFunc(streamCtx, func() { unwatch() })
	return h, nil
}
