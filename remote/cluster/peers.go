package cluster

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Peers keeps a connection to each member of a job that was asked for, wherever that moves. It is safe for concurrent use.
type Peers struct {
	registry Registry
	ctx      context.Context
	cancel   context.CancelFunc

	mu    sync.Mutex
	conns map[Member]*grpc.ClientConn
}

// NewPeers returns a Peers without connections. It follows addresses until ctx ends; the caller closes it before the registry.
func NewPeers(ctx context.Context, registry Registry) *Peers {
	p := &Peers{registry: registry, conns: map[Member]*grpc.ClientConn{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// Coordinator returns the client of the coordinator. It does not wait: a call to one that is not there does, if it is made so.
func (p *Peers) Coordinator() (rpc.CoordinatorClient, error) {
	conn, err := p.dial(Member{Role: job.Role_COORDINATOR})
	return rpc.NewCoordinatorClient(conn), err
}

// Server returns the client of a pserver. It does not wait either.
func (p *Peers) Server(index int) (rpc.ParameterServerClient, error) {
	conn, err := p.dial(Member{Role: job.Role_PSERVER, Index: index})
	return rpc.NewParameterServerClient(conn), err
}

// Servers returns the clients of pservers 0 to n-1.
func (p *Peers) Servers(n int) ([]rpc.ParameterServerClient, error) {
	var servers []rpc.ParameterServerClient
	for i := range n {
		server, err := p.Server(i)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	return servers, nil
}

func (p *Peers) dial(m Member) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn := p.conns[m]; conn != nil {
		return conn, nil
	}
	addresses, err := p.registry.Follow(p.ctx, m)
	if err != nil {
		return nil, err
	}
	conn, err := wire.DialFollow(p.ctx, addresses)
	if err != nil {
		return nil, err
	}
	p.conns[m] = conn
	return conn, nil
}

// Close ends all connections.
func (p *Peers) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		err = errors.Join(err, conn.Close())
	}
	clear(p.conns)
	p.cancel()
	return err
}
