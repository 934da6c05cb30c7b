// Package wire is the transport: connections, faults that cross the wire, and messages and tensors of any size.
//
// Files in reading order: connect.go has clients, servers and retries; side.go how the two ends of a connection know each other; bearer.go callers that show a token; protocol.go whether two builds understand each other; around.go what a server does around each call; follow.go connections to a peer that moves; errors.go how faults cross the
// wire; identity.go who sends a message; variable.go how tensors are sent and received; codec.go how they are encoded without copies; large.go other
// messages that may be too large for one gRPC message.
//
// Control messages are ordinary gRPC. Tensor bytes travel as a stream of rpc.VariableChunk. The codec of this package encodes the header of a chunk
// as protobuf and appends the elements from the memory of the tensor. The receiver copies them once, from the buffers of the transport into the
// tensor that waits for them:
//
//	sender: tensor --> header, elements of at most ChunkBytes --> gRPC --> receiver: check the header, choose the tensor, copy
//
// The bytes on the wire are a legal VariableChunk, so any gRPC implementation can take part. No other package knows how tensors move. Elements travel
// little-endian, as in the memory of every machine that EDL runs on.
package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

// maxMessage bounds one gRPC message; tensors and programs travel in pieces far below it.
const maxMessage = 16 << 20

// window is the flow-control window of a connection: enough for several chunks in flight.
const window = 8 << 20

// maxStreams bounds the calls that one connection has under way, each of which may hold a buffer.
const maxStreams = 256

// If a call is under way and no byte arrives from a peer for peerSilence + peerAnswer, because it is paused or its network drops everything, the
// connection is closed and the call fails with fault.Unavailable. gRPC does not let clients ask more often. If the machine of the peer does not
// acknowledge bytes, the connection is closed after peerAnswer. These are limits of the transport, not of a job: a client of a listener has no job, and
// gRPC sets them when a connection is made.
const (
	peerSilence = 10 * time.Second
	peerAnswer  = 3 * time.Second
)

// unix begins the address of a socket of this machine. Its kernel tells the end of a peer, so silence means only that one side is paused, as the whole machine may be, and
// the connection stays: it has no limits of silence.
const unix = "unix:"

// OfThisMachine is the option of a server that listens on a socket of this machine alone: peers may be silent for ever.
func OfThisMachine() grpc.ServerOption {
	return grpc.KeepaliveParams(keepalive.ServerParameters{Time: math.MaxInt64, Timeout: peerAnswer})
}

// greeting bounds the time in which a new connection has to speak gRPC. Then the server closes it.
const greeting = 5 * time.Second

// Dial prepares a connection to a server of this package. It does not block: each call waits for the server until its own deadline. Several addresses of a server that
// moves among them are separated by commas: the connection goes to the first that answers, and when it breaks, they are tried again in order.
func Dial(address string, side *Side) (*grpc.ClientConn, error) {
	name := func() string { return address }
	several := strings.Split(address, ",")
	if strings.HasPrefix(address, unix) {
		return dial(scheme+address, side, name, silently)
	}
	if len(several) == 1 {
		return dial(scheme+address, side, name)
	}
	var list []resolver.Endpoint
	for _, a := range several {
		list = append(list, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	r := manual.NewBuilderWithScheme("edl-several")
	r.InitialState(resolver.State{Endpoints: list})
	return dial(r.Scheme()+":///"+several[0], side, name, grpc.WithResolvers(r))
}

// Answers reports whether the process at an address answers before ctx ends: not its machine alone, which accepts connections for a process that hangs.
func (s *Side) Answers(ctx context.Context, address string) bool {
	conn, err := Dial(address, s)
	if err != nil {
		return false
	}
	defer conn.Close()
	for conn.Connect(); ; {
		state := conn.GetState()
		switch state {
		case connectivity.Ready: // the other end has spoken TLS and HTTP/2
			return true
		case connectivity.TransientFailure:
			return false
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// silently lets the server be silent for ever.
var silently = grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: math.MaxInt64, Timeout: peerAnswer})

// dial connects to target; address names the peer in errors.
func dial(target string, side *Side, address func() string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	named := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return fromAddress(address(), invoke(ctx, method, req, reply, cc, opts...))
	}
	if side != nil && side.token != nil {
		more = append(more, grpc.WithPerRPCCredentials(shownToken{side.token}))
	}
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(side.client()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(maxMessage),
			grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(2 * window),
		grpc.WithWriteBufferSize(256 << 10), grpc.WithReadBufferSize(256 << 10),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: peerSilence, Timeout: peerAnswer}),
		grpc.WithChainUnaryInterceptor(named), grpc.WithDisableServiceConfig()}, more...)...)
	if err != nil {
		return nil, fault.E(fault.InvalidArgument, fault.At(address()), fault.Cause(err))
	}
	return conn, nil
}

// NewServer returns a gRPC server with this package's codec, limits and faults. More options are Around.
func NewServer(side *Side, more ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{grpc.Creds(side.server()), grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(2 * window),
		grpc.WriteBufferSize(256 << 10), grpc.ReadBufferSize(256 << 10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 2 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: peerSilence / 2, Timeout: peerAnswer}),
		grpc.ConnectionTimeout(greeting), grpc.MaxConcurrentStreams(maxStreams), grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(unaryServer), grpc.ChainStreamInterceptor(streamServer)}, more...)...)
}

// scheme leaves an address as it is.
const scheme = "passthrough:///"

// Listen opens a TCP port; port 0 chooses a free one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.E(fault.InvalidArgument, fault.At("listen on "+address), fault.Got("a port that a process has"), fault.Want("a free one"),
			fault.Hint("end that process, such as another listener, or name another port"))
	}
	return l, fault.Wrap(fault.InvalidArgument, "listen on "+address, err)
}

// An openConns is a listener that knows its connections. gRPC does not end those that have not spoken yet.
type openConns struct {
	net.Listener
	mu     sync.Mutex
	conns  map[*openConn]bool
	closed bool // no connection is accepted any more
}

type openConn struct {
	net.Conn
	of *openConns
}

func (l *openConns) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &openConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
	}
	l.conns[c] = true
	return c, nil
}

func (c *openConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// closeAll closes every connection.
func (l *openConns) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.conns {
		_ = c.Conn.Close() // gRPC notices, and closes it again
	}
}

// Serve runs s on l until ctx ends, then lets calls in flight finish for at most grace and stops. It closes every connection then, also those that
// have not spoken. No handler runs when it has returned.
func Serve(ctx context.Context, s *grpc.Server, port net.Listener, grace time.Duration) error {
	l := &openConns{Listener: port, conns: map[*openConn]bool{}}
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
			return
		}
		timer := time.AfterFunc(grace, func() { l.closeAll(); s.Stop() })
		defer timer.Stop()
		s.GracefulStop()
	}()
	err := s.Serve(l)
	close(ended)
	<-stopped
	l.closeAll()
	s.Stop()
	if ctx.Err() != nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, "serve on "+l.Addr().String(), err)
}

func unaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer func() { err = ToStatus(recovered(info.FullMethod, recover(), err)) }()
	if err := checkSpeaker(ctx, req); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func streamServer(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() { err = ToStatus(recovered(info.FullMethod, recover(), err)) }()
	return handle(srv, heardStream{ss})
}

// recovered returns a fault for a panic in the handler of a method, so that a bug ends one call and not the process.
func recovered(method string, panicked any, err error) error {
	if panicked == nil {
		return err
	}
	return fault.E(fault.Internal, fault.At(method), fault.Gotf("a panic at %s: %v", panicLine(), panicked), fault.Hint("this is a bug in edl"))
}

// panicLine is file:line of the innermost call that panicked, as seen by the deferred function that recovers.
func panicLine() string {
	stack := make([]uintptr, 32)
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack)])
	for panicking := false; ; {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !inRuntime || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		panicking = panicking || inRuntime
	}
}

// RetryWithin is Retry for calls without a deadline, which wait until others have done something. It gives up when the peer has been unavailable for
// patience: calls have failed for so long, and none of them lasted so long. f must make its calls with grpc.WaitForReady(false); else a call waits
// for a peer that is gone.
func RetryWithin(ctx context.Context, patience time.Duration, f func(retry id.Retry) error) error {
	var failing time.Time // since when, zero while the peer answers
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return Retry(ctx, func(retry id.Retry) error {
		start := time.Now()
		err := f(retry)
		end := time.Now()
		switch {
		case failing.IsZero() || end.Sub(start) >= patience:
			failing = end
		case end.Sub(failing) >= patience:
			cancel()
		}
		return err
	})
}

// Retry calls f until it succeeds, fails with anything but fault.Unavailable, or ctx ends. f gets the number of the retry, 0 at first, for its
// messages. So a single error of the transport does not end a job.
func Retry(ctx context.Context, f func(retry id.Retry) error) error {
	return RetrySoon(ctx, time.Second, f)
}

// RetrySoon is Retry for calls whose answer others wait for: the pauses between two tries are about longest at most, where those of Retry grow to a second.
func RetrySoon(ctx context.Context, longest time.Duration, f func(retry id.Retry) error) error {
	delay := min(10*time.Millisecond, longest)
	for retry := id.Retry(0); ; retry++ {
		err := f(retry)
		if err == nil || !errors.Is(err, fault.Unavailable) {
			return err
		}
		timer := time.NewTimer(delay/2 + rand.N(delay))
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		delay = min(2*delay, longest)
	}
}

// EachServer calls so many servers at the same time. The first call that fails ends the others, and its error is returned.
func EachServer(ctx context.Context, servers int, call func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	errs := make([]error, servers)
	for i := range servers {
		group.Go(func() {
			if errs[i] = call(ctx, i); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	group.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return errs[i]
	}
	return nil
}
