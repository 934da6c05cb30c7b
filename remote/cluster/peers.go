package cluster

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Peers keeps a connection to each member of a job that a caller has asked for. When a member moves, its connection follows. It is safe for
// concurrent use.
type Peers struct {
	registry Registry
	side     *wire.Side
	ctx      context.Context
	cancel   context.CancelCauseFunc
	running  sync.WaitGroup // one for each connection

	mu    sync.Mutex
	conns map[Member]*grpc.ClientConn
}

// NewPeers returns a Peers without connections, for one side of them. It follows addresses until ctx ends; the caller closes it before the registry.
func NewPeers(ctx context.Context, registry Registry, side *wire.Side) *Peers {
	p := &Peers{registry: registry, side: side, conns: map[Member]*grpc.ClientConn{}}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// Context ends when Peers does. It ends earlier, with a fault.Unavailable as its cause, when the registry refuses to report the addresses of a member
// any longer: if that member moved, calls would go to its old address.
func (p *Peers) Context() context.Context { return p.ctx }

// Coordinator returns the client of the coordinator. It does not wait for the coordinator; a call with grpc.WaitForReady does.
func (p *Peers) Coordinator() (rpc.CoordinatorClient, error) {
	conn, err := p.dial(Member{Role: job.Role_COORDINATOR})
	return rpc.NewCoordinatorClient(conn), err
}

// Server returns the client of a pserver. It does not wait for the pserver.
func (p *Peers) Server(index int) (rpc.ParameterServerClient, error) {
	conn, err := p.dial(Member{Role: job.Role_PSERVER, Index: index})
	return rpc.NewParameterServerClient(conn), err
}

// Standby returns the client of the standby of a pserver. It does not wait for the standby.
func (p *Peers) Standby(index int) (rpc.ParameterServerClient, error) {
	conn, err := p.dial(Member{Role: job.Role_STANDBY, Index: index})
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
	addresses, err := p.registry.WatchAddress(p.ctx, m)
	if err != nil {
		return nil, err
	}
	known := make(chan string)
	conn, err := wire.DialFollow(p.ctx, known, p.side)
	if err != nil {
		return nil, err
	}
	p.running.Go(func() { p.passOn(m, addresses, known) })
	p.conns[m] = conn
	return conn, nil
}

// passOn hands the addresses of a member to its connection until ctx ends. It ends ctx when the registry reports no more addresses.
func (p *Peers) passOn(m Member, addresses <-chan string, known chan<- string) {
	for address := range addresses {
		select {
		case known <- address:
		case <-p.ctx.Done():
			return
		}
	}
	p.cancel(fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("no more addresses of the "+m.String()),
		fault.Hint("look at the rights of the user in etcd"))) // changes nothing when ctx has ended
}

// Close ends all connections.
func (p *Peers) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel(nil)
	for _, conn := range p.conns {
		err = errors.Join(err, conn.Close())
	}
	clear(p.conns)
	p.running.Wait()
	return err
}
