package dataplane

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

// A hello is the first thing that a trainer sends: the version of the protocol, the way that slices travel, and its token.
const (
	hello       = "EDLdata2" // slices travel in frames
	helloShared = "EDLmem.2" // slices travel in memory that both ends share; over a unix socket only
)

const (
	tokenBytes = 16
	greeting   = 5 * time.Second  // for a hello to arrive whole
	claimTime  = 60 * time.Second // for a token to be claimed
	// acceptPause is between two tries to accept while the system gives no connection.
	acceptPause = 100 * time.Millisecond
	maxShared   = 1 << 30 // bytes of memory that one server shares with all trainers
	maxSilent   = 256     // connections that have not shown a good token yet; for one more, the oldest of them is closed
)

// A Token admits one connection.
type Token [tokenBytes]byte

// An Acceptor is the end of a server. It admits connections whose tokens were given out, and no others.
type Acceptor struct {
	// Silence is how long the machine of a trainer may leave a connection over TCP without an answer, in whole seconds from 2 on. Then the connection
	// ends. 0 leaves it to the system. It is set before Serve.
	Silence time.Duration
	// TLS protects connections over TCP, and says which peers are heard; nil: they are in clear text, and heard if they show a token. It is set before Serve.
	TLS *tls.Config

	port  net.Listener
	local net.Listener // a unix socket for processes of this host; nil where there is none

	mu     sync.Mutex
	offers map[Token]*Offer
	conns  map[net.Conn]bool // all that are open
	silent []net.Conn        // of these, those that have not shown a good token, the oldest first
	shared int               // bytes of memory
	closed bool
	group  sync.WaitGroup // connections
}

// Listen opens a TCP port on a host, and a unix socket where the system has those without files. Serve must follow, or Close.
func Listen(ctx context.Context, host string) (*Acceptor, error) {
	port, err := wire.Listen(ctx, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	return &Acceptor{port: port, local: listenLocal(ctx), offers: map[Token]*Offer{}, conns: map[net.Conn]bool{}}, nil
}

// Address is the TCP address where trainers connect.
func (a *Acceptor) Address() string { return a.port.Addr().String() }

// Place says where trainers connect with a token.
func (a *Acceptor) Place(t Token) Place {
	p := Place{Address: a.Address(), Token: t[:]}
	if a.local != nil {
		p.Host, p.Local = hostID(), a.local.Addr().String()
	}
	return p
}

// An Offer is the right to open one connection.
type Offer struct {
	Token  Token
	of     *Acceptor
	layout Layout
	serve  func(ctx context.Context, c *Conn)
	expiry *time.Timer
	ctx    context.Context // of the connection
	cancel context.CancelFunc
	conn   net.Conn // nil until it is claimed
}

// Offer makes a token for a connection with a layout. When a peer shows it, serve runs on a goroutine of its own until it returns; the connection is
// closed then. The context of serve ends when the offer or the Acceptor is closed. A token that nobody claims within a minute is forgotten.
func (a *Acceptor) Offer(l Layout, serve func(ctx context.Context, c *Conn)) (*Offer, error) {
	o := &Offer{of: a, layout: l, serve: serve}
	if _, err := rand.Read(o.Token[:]); err != nil {
		return nil, fault.Wrap(fault.Internal, "token", err)
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		o.cancel()
		return nil, fault.E(fault.Unavailable, fault.Got("a connection to a server that ends"))
	}
	a.offers[o.Token] = o
	o.expiry = time.AfterFunc(claimTime, func() {
		a.mu.Lock()
		unclaimed := o.conn == nil
		a.mu.Unlock()
		if unclaimed {
			o.Close()
		}
	})
	return o, nil
}

// Close takes the offer back, and ends its connection. It may be called again.
func (o *Offer) Close() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.end()
}

// end is Close with the lock held.
func (o *Offer) end() {
	o.expiry.Stop()
	o.cancel()
	delete(o.of.offers, o.Token)
	if o.conn != nil {
		_ = o.conn.Close()
	}
}

// Serve admits connections until ctx ends. It returns when all of them are closed and nothing serves them any more.
func (a *Acceptor) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, a.close)
	defer stop()
	defer a.group.Wait()
	defer a.close()
	if a.local != nil {
		a.group.Go(func() {
			_ = a.accept(ctx, a.local)
			_ = a.local.Close() // a trainer that cannot connect here takes the port
		})
	}
	return a.accept(ctx, a.port)
}

// accept admits connections of one listener until ctx ends.
func (a *Acceptor) accept(ctx context.Context, from net.Listener) error {
	for {
		c, err := from.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if short(err) {
				select { // others may give some back
				case <-time.After(acceptPause):
				case <-ctx.Done():
				}
				continue
			}
			return fault.Wrap(fault.Unavailable, "accept on "+from.Addr().String(), err)
		}
		if !a.enter(c) {
			_ = c.Close()
		}
	}
}

// short reports whether a connection could not be accepted because the process or the system is short of file descriptors or memory.
func short(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Close is for an Acceptor that does not Serve.
func (a *Acceptor) Close() { a.close() }

func (a *Acceptor) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	_ = a.port.Close()
	if a.local != nil {
		_ = a.local.Close()
	}
	for _, o := range a.offers {
		o.end()
	}
	for c := range a.conns {
		_ = c.Close()
	}
}

// enter starts the goroutine of a connection. When too many are silent, the oldest of them gives way: a trainer says hello at once, so peers that only
// connect cannot keep trainers out.
func (a *Acceptor) enter(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	if len(a.silent) >= maxSilent {
		oldest := a.silent[0]
		a.heard(oldest)
		_ = oldest.Close()
	}
	a.silent = append(a.silent, c)
	a.conns[c] = true
	a.group.Go(func() {
		defer func() {
			_ = c.Close()
			a.mu.Lock()
			defer a.mu.Unlock()
			a.heard(c)
			delete(a.conns, c)
		}()
		a.admit(c)
	})
	return true
}

// heard notes that a connection is not one of the silent. The lock is held.
func (a *Acceptor) heard(c net.Conn) {
	if i := slices.Index(a.silent, c); i >= 0 {
		a.silent = slices.Delete(a.silent, i, i+1)
	}
}

// admit serves a connection that shows a good token.
func (a *Acceptor) admit(c net.Conn) {
	tune(c, a.Silence)
	spoken, err := a.protect(c)
	if err != nil { // nobody who may speak here
		return
	}
	o, memory, err := a.claim(c, spoken)
	if o == nil && err == nil {
		return
	}
	conn := newConn(spoken)
	defer conn.Free()
	if err != nil {
		conn.Fail(err)
		return
	}
	defer o.Close()
	if memory {
		_, _, size := o.layout.places()
		if err = a.reserve(size); err == nil {
			defer a.reserve(-size)
			err = conn.offerMemory(o.layout)
		}
		if err != nil {
			conn.Fail(err)
			return
		}
		defer conn.Free() // before the reserve ends
	} else if conn.WriteMessage(Head{Kind: Welcome}, nil) != nil {
		return
	}
	o.serve(o.ctx, conn)
}

// protect returns what to speak through on a connection: over TCP TLS, if there is a configuration.
func (a *Acceptor) protect(c net.Conn) (net.Conn, error) {
	if _, local := c.(*net.UnixConn); local || a.TLS == nil {
		return c, nil
	}
	_ = c.SetDeadline(time.Now().Add(greeting))
	s, err := secure(context.Background(), c, tls.Server, a.TLS)
	return s, err
}

// claim reads a hello and returns the offer of its token, and whether the peer wants to share memory. It returns nil for a peer that says nothing of
// this protocol. The hello is read through spoken, which may be c.
func (a *Acceptor) claim(c, spoken net.Conn) (o *Offer, memory bool, err error) {
	var said [len(hello) + tokenBytes]byte
	_ = c.SetDeadline(time.Now().Add(greeting))
	_, err = io.ReadFull(spoken, said[:])
	_ = c.SetDeadline(time.Time{})
	a.mu.Lock()
	defer a.mu.Unlock()
	greeted := string(said[:len(hello)])
	if err != nil || greeted != hello && greeted != helloShared {
		return nil, false, nil
	}
	o = a.offers[Token(said[len(hello):])]
	if !sameUser(c) {
		return nil, false, fault.E(fault.Unsupported, fault.Got("a process of another user on a unix socket"), fault.Want("the user of the server"))
	}
	if o == nil || o.conn != nil {
		return nil, false, fault.E(fault.Unavailable, fault.Got("a connection with a token that is not known"), fault.Want("the token of an open offer"))
	}
	o.conn = c
	a.heard(c)
	return o, greeted == helloShared, nil
}

// reserve takes shared memory from what the server may have, or gives it back.
func (a *Acceptor) reserve(size int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if size > maxShared-a.shared {
		return fault.E(fault.Unsupported, fault.Gotf("a request for %d bytes of shared memory", size),
			fault.Wantf("at most %d, which are left of %d", maxShared-a.shared, maxShared))
	}
	a.shared += size
	return nil
}
