package listen

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// peers are the servers of a job, wherever their current processes are.
type peers struct {
	coordinator rpc.CoordinatorClient
	servers     []rpc.ParameterServerClient
	conns       []*grpc.ClientConn
}

// followPeers follows the addresses of the coordinator and of n pservers until ctx ends.
func followPeers(ctx context.Context, registry cluster.Registry, n int) (*peers, error) {
	p := &peers{}
	follow := func(m cluster.Member) (*grpc.ClientConn, error) {
		addresses, err := registry.Follow(ctx, m)
		if err != nil {
			return nil, err
		}
		conn, err := wire.DialFollow(ctx, addresses)
		if err == nil {
			p.conns = append(p.conns, conn)
		}
		return conn, err
	}
	conn, err := follow(cluster.Member{Role: job.Role_COORDINATOR})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.coordinator = rpc.NewCoordinatorClient(conn)
	for i := range n {
		if conn, err = follow(cluster.Member{Role: job.Role_PSERVER, Index: i}); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.servers = append(p.servers, rpc.NewParameterServerClient(conn))
	}
	return p, nil
}

func (p *peers) close() (err error) {
	for _, c := range p.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}
