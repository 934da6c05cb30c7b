package cluster

import (
	"context"
	"log/slog"
	"net/url"
	"sync"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
)

// Ticks of the embedded server. It has no peers, so that nothing speaks against electing itself at once; etcd's own defaults take it almost a second.
const (
	tickMilliseconds     = 10
	electionMilliseconds = 100
)

// quota is how large the store of an embedded server may become.
const quota = 8 << 30

// Embedded is an etcd server in this process, for a cluster on one machine. What it keeps is not synced to disk: it is worth nothing without this
// process.
type Embedded struct {
	server *embed.Etcd
	cancel context.CancelFunc
	once   sync.Once
}

// Embed starts a server on free ports of the loopback interface, with its files in dir, which must be empty or absent. It returns when the server
// takes requests.
func Embed(ctx context.Context, dir string, log *slog.Logger) (*Embedded, error) {
	return start(ctx, dir, log, false)
}

func start(ctx context.Context, dir string, log *slog.Logger, synced bool) (*Embedded, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.E(contextKind(ctx), fault.At("embedded etcd"), fault.Cause(context.Cause(ctx)))
	}
	c := embed.NewConfig()
	c.Dir = dir
	c.TickMs, c.ElectionMs = tickMilliseconds, electionMilliseconds
	c.UnsafeNoFsync = !synced
	// The state of a coordinator changes many times a second. Nobody looks back, and what was before would fill the store.
	c.AutoCompactionMode, c.AutoCompactionRetention, c.QuotaBackendBytes = embed.CompactorModePeriodic, "1m", quota
	c.EnableGRPCGateway = false
	// The server listens on ports that the system chooses. With no peers nobody reads what it advertises.
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenPeerUrls, c.AdvertisePeerUrls, c.ListenClientUrls, c.AdvertiseClientUrls = free, free, free, free
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	closing, cancel := context.WithCancel(context.Background())
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(closing, log))
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endWith(closing))}

	server, err := embed.StartEtcd(c)
	if err != nil {
		cancel()
		return nil, fault.Wrap(fault.Unavailable, "embedded etcd in "+dir, err)
	}
	e := &Embedded{server: server, cancel: cancel}
	select {
	case <-server.Server.ReadyNotify():
		return e, nil
	case err = <-server.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = e.Close()
	kind := fault.Unavailable
	if ctx.Err() != nil {
		kind = contextKind(ctx)
	}
	return nil, fault.Wrap(kind, "embedded etcd in "+dir, err)
}

// Endpoints returns what Config.Endpoints needs.
func (e *Embedded) Endpoints() []string {
	var endpoints []string
	for _, l := range e.server.Clients {
		endpoints = append(endpoints, l.Addr().String())
	}
	return endpoints
}

// Close ends the server; its files stay. Registries are better closed first: what they still wait for ends with the server.
func (e *Embedded) Close() error {
	e.once.Do(func() {
		e.cancel()
		e.server.Close()
	})
	return nil
}

// endWith ends streams with ctx. Watches and renewals of leases last as long as their client, and the server would wait several seconds for them.
func endWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		both, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return handle(srv, &endingStream{ServerStream: stream, ctx: both})
	}
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }
