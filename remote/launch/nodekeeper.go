package launch

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A NodeKeeper answers other listeners for the keeper of a node, which only this machine reaches: see KeptNodes. When the listener of the node ends, so do its calls, and the roles go
// on; the next listener of the node answers for the same keeper.
type NodeKeeper struct {
	rpc.UnimplementedKeeperServer
	Keeper rpc.KeeperClient
	ID     string                                     // of the keeper
	Change func(*job.RoleSpec) (*job.RoleSpec, error) // makes of a role that another listener sends one of this node
	Binary *Binary                                    // from which the roles of the runs start that begin here; nil: from that of the keeper
}

// Attend tells the id of the keeper, and nothing of its etcd.
func (n *NodeKeeper) Attend(_ *rpc.AttendRequest, stream grpc.ServerStreamingServer[rpc.KeeperState]) error {
	if err := stream.Send(&rpc.KeeperState{Id: n.ID, Protocol: wire.Protocol, Build: thisbuild.Name()}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Start starts a role that was not started.
func (n *NodeKeeper) Start(from grpc.ClientStreamingServer[rpc.Piece, rpc.KeptRole]) error {
	m := &rpc.KeptStart{}
	if err := wire.Receive("listener", from, m, MaxSpec); err != nil {
		return err
	}
	if m.Spec == nil {
		return fault.E(fault.Corrupt, fault.At("keeper"), fault.Got("a start without a role"))
	}
	var err error
	if m.Spec, err = n.Change(m.Spec); err != nil {
		return err
	}
	m.Binary = n.Binary.Shared()
	to, err := n.Keeper.Start(from.Context(), grpc.WaitForReady(false))
	if err == nil {
		if err = wire.Send(to, m); errors.Is(err, io.EOF) {
			err = nil // CloseAndRecv says why
		}
	}
	var role *rpc.KeptRole
	if err == nil {
		role, err = to.CloseAndRecv()
	}
	if err != nil {
		return wire.FromStatus("keeper", err)
	}
	return from.SendAndClose(role)
}

// Follow implements rpc.KeeperServer.
func (n *NodeKeeper) Follow(m *rpc.KeptRole, to grpc.ServerStreamingServer[rpc.RoleEvent]) error {
	from, err := n.Keeper.Follow(to.Context(), m, grpc.WaitForReady(false))
	return forward(from, err, to)
}

// Lines implements rpc.KeeperServer.
func (n *NodeKeeper) Lines(m *rpc.LinesRequest, to grpc.ServerStreamingServer[rpc.LogLine]) error {
	from, err := n.Keeper.Lines(to.Context(), m, grpc.WaitForReady(false))
	return forward(from, err, to)
}

// forward passes on what a stream brings, to its end.
func forward[M any](from grpc.ServerStreamingClient[M], err error, to grpc.ServerStreamingServer[M]) error {
	for err == nil {
		var m *M
		if m, err = from.Recv(); err == nil {
			err = to.Send(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return wire.FromStatus("keeper", err)
}

// EndRole implements rpc.KeeperServer.
func (n *NodeKeeper) EndRole(ctx context.Context, m *rpc.EndRoleRequest) (*rpc.EndRoleResponse, error) {
	r, err := n.Keeper.EndRole(ctx, m, grpc.WaitForReady(false))
	return r, wire.FromStatus("keeper", err)
}

// RenewRole implements rpc.KeeperServer.
func (n *NodeKeeper) RenewRole(ctx context.Context, m *rpc.RenewRoleRequest) (*rpc.RenewRoleResponse, error) {
	r, err := n.Keeper.RenewRole(ctx, m, grpc.WaitForReady(false))
	return r, wire.FromStatus("keeper", err)
}

// Release implements rpc.KeeperServer.
func (n *NodeKeeper) Release(ctx context.Context, m *rpc.ReleaseRequest) (*rpc.ReleaseResponse, error) {
	r, err := n.Keeper.Release(ctx, m, grpc.WaitForReady(false))
	return r, wire.FromStatus("keeper", err)
}

// ForNodes is a Keeper of this process that answers other listeners: its roles end with the process. None of them may dismiss it.
func ForNodes(k *Keeper) rpc.KeeperServer { return undismissed{k} }

type undismissed struct{ *Keeper }

func (undismissed) Dismiss(context.Context, *rpc.DismissRequest) (*rpc.DismissResponse, error) {
	return nil, fault.E(fault.Denied, fault.At("keeper"), fault.Got("a dismissal from another listener"), fault.Want("one from the listener of the node"))
}
