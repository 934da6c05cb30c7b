package listen_test

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// hanging is a coordinator that never answers.
type hanging struct {
	rpc.UnimplementedCoordinatorServer
	release chan struct{}
}

func (h hanging) Queues(_ *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	select {
	case <-stream.Context().Done():
	case <-h.release:
	}
	return fault.New(fault.Canceled, "released")
}

func (h hanging) Join(ctx context.Context, _ *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	select {
	case <-ctx.Done():
	case <-h.release:
	}
	return nil, fault.New(fault.Canceled, "released")
}

// serveCoordinator is the life of a coordinator of the test.
func serveCoordinator(ctx context.Context, store *cluster.Memory, spec *job.RoleSpec, service rpc.CoordinatorServer) error {
	port, err := wire.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry, err := store.Open(spec.Prefix)
	if err != nil {
		return err
	}
	defer registry.Close()
	m, err := registry.LeadCoordinator(ctx, port.Addr().String())
	if err != nil {
		return err
	}
	s := wire.NewServer()
	rpc.RegisterCoordinatorServer(s, service)
	if err := wire.Serve(ctx, s, port, time.Second); err != nil {
		return err
	}
	return m.Leave(context.WithoutCancel(ctx))
}
