package wire

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/edl-go/edl/fault"
)

// DialFollow is Dial for a peer that moves: the connection goes to the address that was received last. While that address is "", and before the
// first, calls wait as for a server that is not ready. When the address changes, calls under way fail with fault.Unavailable at once, and their retry
// goes to the new address. Addresses are received until the connection is closed, ctx ends, or the channel is closed; after ctx has ended or the
// channel was closed, the last address stays. No goroutine is left when Close has returned.
func DialFollow(ctx context.Context, addresses <-chan string, side *Side) (*grpc.ClientConn, error) {
	f := &follower{ctx: ctx, addresses: addresses, open: map[*followedConn]bool{}}
	// Without the idle timeout the resolver lives as long as the connection.
	conn, err := dial(followScheme+":///", side, f.name, grpc.WithResolvers(f), grpc.WithContextDialer(f.dial), grpc.WithIdleTimeout(0))
	if err != nil {
		return nil, err
	}
	conn.Connect() // starts the resolver
	return conn, nil
}

const followScheme = "edl-follow"

// follower is the resolver of one connection, and knows its TCP connections. It closes them when the address changes, because gRPC would let calls
// wait at the old address, where the peer may never answer.
type follower struct {
	ctx       context.Context
	addresses <-chan string

	mu      sync.Mutex
	told    bool // gRPC knows address
	address string
	open    map[*followedConn]bool
}

func (f *follower) name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.address == "" {
		return "an address that is not known yet"
	}
	return f.address
}

func (f *follower) Scheme() string { return followScheme }

// Build starts the only goroutine; Close of what it returns ends it.
func (f *follower) Build(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	r := &following{cancel: cancel}
	r.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case address, more := <-f.addresses:
				if !more {
					return
				}
				f.moveTo(conn, address)
			}
		}
	})
	return r, nil
}

// moveTo gives gRPC the new address before it closes connections, so that no retry goes to the old one.
func (f *follower) moveTo(conn resolver.ClientConn, address string) {
	f.mu.Lock()
	if f.told && f.address == address {
		f.mu.Unlock()
		return
	}
	f.told, f.address = true, address
	old := f.open
	f.open = map[*followedConn]bool{}
	f.mu.Unlock()
	var state resolver.State
	if address != "" {
		state.Addresses = []resolver.Address{{Addr: address}}
	}
	_ = conn.UpdateState(state) // without an address gRPC says so, and lets calls wait
	for c := range old {
		_ = c.Conn.Close()
	}
}

func (f *follower) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.address != address {
		_ = c.Close()
		return nil, fault.E(fault.Unavailable, fault.At(address), fault.Got("an address that the peer has left"))
	}
	followed := &followedConn{Conn: c, follower: f}
	f.open[followed] = true
	return followed, nil
}

// followedConn is forgotten when gRPC closes it.
type followedConn struct {
	net.Conn
	follower *follower
}

func (c *followedConn) Close() error {
	c.follower.mu.Lock()
	delete(c.follower.open, c)
	c.follower.mu.Unlock()
	return c.Conn.Close()
}

type following struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (r *following) ResolveNow(resolver.ResolveNowOptions) {}

func (r *following) Close() {
	r.cancel()
	r.running.Wait()
}
