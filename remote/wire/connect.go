package wire

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/edl-go/edl/fault"
)

// maxMessage bounds one gRPC message; tensors and programs travel in pieces far below it.
const maxMessage = 16 << 20

// window is the flow-control window of a connection: enough for several chunks in flight.
const window = 8 << 20

// Dial prepares a connection to a server of this package. It does not block: calls wait for the server to be ready, until their
// own deadline.
func Dial(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(2*window),
		grpc.WithWriteBufferSize(256<<10), grpc.WithReadBufferSize(256<<10),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 2 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithChainUnaryInterceptor(unaryClient), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: address, Err: err}
	}
	return conn, nil
}

// NewServer returns a gRPC server with this package's codec, limits and faults.
func NewServer() *grpc.Server {
	return grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(2*window),
		grpc.WriteBufferSize(256<<10), grpc.ReadBufferSize(256<<10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 2 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(unaryServer), grpc.ChainStreamInterceptor(streamServer))
}

// Listen opens a TCP port on host; port 0 chooses a free one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	return l, fault.Wrap(fault.InvalidArgument, "listen on "+address, err)
}

// Serve runs s on l until ctx ends, then lets calls in flight finish for at most grace and stops.
func Serve(ctx context.Context, s *grpc.Server, l net.Listener, grace time.Duration) error {
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
			return
		}
		timer := time.AfterFunc(grace, s.Stop)
		defer timer.Stop()
		s.GracefulStop()
	}()
	err := s.Serve(l)
	close(ended)
	<-stopped
	if ctx.Err() != nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, "serve on "+l.Addr().String(), err)
}

func unaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return FromStatus(cc.Target()+method, invoke(ctx, method, req, reply, cc, opts...))
}

func unaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	return resp, ToStatus(err)
}

func streamServer(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return ToStatus(handle(srv, ss))
}
